"""What another site can make a visitor's browser send is refused, and changes nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from potluck.server.api.operations import OPERATIONS
from potluck.wire import routes
from tests.browser_session import BrowserSession
from tests.processes import ServerProcess, free_port
from tests.wallets import Wallet

ROUTES = [routes.BROWSER_LOGIN, routes.BROWSER_REFRESH, routes.BROWSER_LOGOUT]
Headers = dict[str, str]
# What differs from a request of the server's own page; None: the header is missing.
REFUSED: dict[str, Callable[[ServerProcess], dict[str, str | None]]] = {
    "a form of another site": lambda _: {
        "Potluck-Browser": None,
        "Origin": "https://evil.example",
        "Sec-Fetch-Site": "cross-site",
    },
    "a script of another site": lambda _: {
        "Origin": "https://evil.example",
        "Sec-Fetch-Site": "cross-site",
    },
    "an old browser, another site": lambda _: {
        "Origin": "https://evil.example",
        "Sec-Fetch-Site": None,
    },
    "a page of another port": lambda server: {
        "Origin": f"http://127.0.0.1:{server.port + 1}",
        "Sec-Fetch-Site": "same-site",
    },
    "a name that begins alike": lambda server: {"Origin": f"{server.url}.evil.example"},
    "a user in the name": lambda server: {"Origin": f"http://127.0.0.1:{server.port}@evil.example"},
    "another scheme": lambda server: {"Origin": server.url.replace("http://", "https://")},
    "capital letters": lambda server: {"Origin": server.url.upper()},
    "a path in the origin": lambda server: {"Origin": f"{server.url}/"},
    "a sandboxed frame": lambda _: {"Origin": "null"},
    "an empty origin": lambda _: {"Origin": ""},
    "no origin": lambda _: {"Origin": None},
    "two origins": lambda server: {"Origin": f"{server.url}, https://evil.example"},
    "the site alone": lambda _: {"Sec-Fetch-Site": "same-site"},
    "a typed address": lambda _: {"Sec-Fetch-Site": "none"},
    "a new kind of site": lambda _: {"Sec-Fetch-Site": "elsewhere"},
    "no header of the page": lambda _: {"Potluck-Browser": None},
    "another header of the page": lambda _: {"Potluck-Browser": "0"},
    "two headers of the page": lambda _: {"Potluck-Browser": "1, 1"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("cross-site")) as running:
        yield running


@pytest.fixture(scope="module")
def victim(server: ServerProcess) -> BrowserSession:
    browser = BrowserSession(server)
    browser.sign_in(Wallet("a victim"))
    return browser


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
@pytest.mark.parametrize("case", REFUSED)
def test_a_request_of_another_page_is_refused(
    server: ServerProcess, victim: BrowserSession, case: str, route: routes.Route
) -> None:
    """With the cookie, which a browser would not even send."""
    changed = {**victim.page_headers, **REFUSED[case](server)}
    headers = {name: value for name, value in changed.items() if value is not None}
    before = dict(victim.cookies)
    body: Any = None
    if route is routes.BROWSER_LOGIN:
        body = Wallet("an attacker").answer(server.client("").post(routes.CHALLENGE.path, {}))
    response = victim.call(route, body, headers)
    problem = response.json()
    assert (response.status, problem["code"]) == (403, "forbidden")
    assert problem["detail"].endswith(".") and problem["hint"]
    assert victim.cookies == before and "Set-Cookie" not in response.headers
    assert not [name for name in response.headers if name.lower().startswith("access-control")]
    victim.refresh()


def test_every_name_of_the_server_is_its_own_page(
    server: ServerProcess, victim: BrowserSession
) -> None:
    headers = {**victim.page_headers, "Origin": f"http://localhost:{server.port}"}
    assert victim.call(routes.BROWSER_REFRESH, headers=headers).status == 200
    old = {name: value for name, value in headers.items() if name != "Sec-Fetch-Site"}
    assert victim.call(routes.BROWSER_REFRESH, headers=old).status == 200


def test_no_other_operation_accepts_the_cookie(
    server: ServerProcess, victim: BrowserSession
) -> None:
    """Whatever else is asked for with the cookie alone is asked for by nobody."""
    for operation in OPERATIONS.values():
        is_asked = operation.scopes and not operation.is_open_locally
        if is_asked and "{" not in operation.route.path:
            response = victim.call(operation.route)
            assert response.status == 401, operation.name


def test_a_preflight_allows_nothing(server: ServerProcess) -> None:
    for route in ROUTES:
        response = server.client("").call(
            "OPTIONS",
            route.path,
            None,
            Origin="https://evil.example",
            Access_Control_Request_Method="POST",
            Access_Control_Request_Headers="potluck-browser",
        )
        assert not [name for name in response.headers if name.lower().startswith("access-control")]


def test_over_tls_the_cookie_is_for_tls_only(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also where a proxy serves TLS, and the server itself plain HTTP."""
    port, public = free_port(), {"POTLUCK_PUBLIC_URL": "https://pool.example"}
    with ServerProcess(tmp_path_factory.mktemp("proxied"), port, **public) as server:
        browser = BrowserSession(server, address=f"http://127.0.0.1:{port}")
        browser.sign_in(server.wallet)
        assert browser.set_cookie["secure"] and browser.set_cookie["httponly"]
        assert browser.set_cookie.key.startswith("__Secure-potluck_refresh_")
        browser.refresh()
        browser.page_headers["Origin"] = browser.address
        refusal = browser.refresh(expected=403)
        assert "https://pool.example" in refusal["hint"], "where to go instead"
