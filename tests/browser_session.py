"""A browser as far as signing in goes: it keeps the cookie, and says where the page is from."""

from http.cookies import SimpleCookie
from typing import Any

import urllib3

from potluck.wire import routes
from tests.log_scanner import SCANNER
from tests.processes import ServerProcess
from tests.wallets import Wallet


class BrowserSession:
    """One cookie jar; its tabs are calls."""

    def __init__(
        self, server: ServerProcess, cookies: dict[str, str] | None = None, address: str = ""
    ) -> None:
        """`address`: where the server is reached, if not by its own name."""
        self.server = server
        self.address = address or server.url
        self.cookies = dict(cookies or {})
        self.set_cookie: Any = None  # as the last answer said
        self.page_headers = {
            "Potluck-Browser": "1",
            "Origin": server.url,
            "Sec-Fetch-Site": "same-origin",
        }

    def copy(self) -> "BrowserSession":
        """With the same cookies, from now on its own: another tab's request that is on its way."""
        return BrowserSession(self.server, self.cookies, self.address)

    def sign_in(self, wallet: Wallet) -> dict[str, Any]:
        challenge = urllib3.request("POST", self.address + routes.CHALLENGE.path, json={}).json()
        tokens: dict[str, Any] = self.call(
            routes.BROWSER_LOGIN, wallet.answer(challenge), expected=201
        ).json()
        return tokens

    def refresh(self, expected: int = 200) -> dict[str, Any]:
        response: dict[str, Any] = self.call(routes.BROWSER_REFRESH, expected=expected).json()
        return response

    def logout(self) -> None:
        self.call(routes.BROWSER_LOGOUT, expected=204)

    def call(
        self,
        route: routes.Route,
        body: Any = None,
        headers: dict[str, str] | None = None,
        expected: int | None = None,
    ) -> urllib3.BaseHTTPResponse:
        """`headers` in place of those of a page of the server."""
        request_headers = dict(self.page_headers if headers is None else headers)
        if self.cookies:
            request_headers["Cookie"] = "; ".join(
                f"{name}={value}" for name, value in self.cookies.items()
            )
        response = urllib3.request(
            route.method,
            self.address + route.path,
            json=body,
            headers=request_headers,
            retries=False,
            timeout=30,
        )
        assert expected in (None, response.status), response.data
        self._keep(response)
        return response

    def _keep(self, answer: urllib3.BaseHTTPResponse) -> None:
        self.set_cookie = None
        for header in answer.headers.getlist("set-cookie"):
            ((name, cookie),) = SimpleCookie(header).items()
            self.set_cookie = cookie
            self.cookies[name] = cookie.value
            if cookie["max-age"] == "0":
                del self.cookies[name]
            else:
                SCANNER.plant("a refresh token", cookie.value.lower())
