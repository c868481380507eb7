"""The cookie of a session in a real browser: scripts cannot read it, other sites cannot use it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Page

from potluck.wire import routes
from tests.processes import Api, ServerProcess
from tests.wallets import Wallet

CALL = """async ([url, body, page]) => {
  const headers = {"Content-Type": "application/json"};
  if (page) headers["Potluck-Browser"] = "1";
  try {
    const answer = await fetch(url, {
      method: "POST", body, headers, credentials: "include", mode: page ? "cors" : "no-cors",
    });
    return [answer.status, answer.status ? await answer.text() : ""];
  } catch (error) {
    return [0, String(error)];
  }
}"""
SUBMIT = """(url) => {
  const form = document.createElement("form");
  form.method = "POST";
  form.enctype = "text/plain";
  form.action = url;
  document.body.append(form);
  form.submit();
}"""


class _EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """Another site: a browser tells names apart, not machines."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _EmptyPage) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        yield f"http://localhost:{httpd.server_port}/"
        httpd.shutdown()
        thread.join()


@pytest.fixture
def signed_in(page: Page, server: ServerProcess, anybody: Api) -> Page:
    page.goto(f"{server.url}/pages/join")
    wallet = Wallet("with a cookie")
    challenge = anybody.post(routes.CHALLENGE.path, {})
    body = json.dumps(wallet.answer(challenge))
    status, text = page.evaluate(CALL, [routes.BROWSER_LOGIN.path, body, True])
    assert status == 201, text
    assert "potluck_refresh" not in text
    return page


def refresh(page: Page, url: str = "") -> int:
    status: int = page.evaluate(CALL, [url + routes.BROWSER_REFRESH.path, None, True])[0]
    return status


def test_a_script_cannot_read_the_cookie_and_the_page_stays_signed_in(signed_in: Page) -> None:
    (cookie,) = signed_in.context.cookies(signed_in.url.split("/pages")[0] + "/v1/auth/browser")
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert signed_in.evaluate("document.cookie") == ""
    stored = "JSON.stringify([{...localStorage}, {...sessionStorage}])"
    assert signed_in.evaluate(stored) == "[{},{}]"
    assert refresh(signed_in) == 200
    signed_in.reload()
    assert refresh(signed_in) == 200, "the cookie outlives the page"


def test_two_pages_refresh_at_once(signed_in: Page, server: ServerProcess) -> None:
    both = f"""async () => {{
      const call = {CALL};
      const asked = ["{routes.BROWSER_REFRESH.path}", null, true];
      const found = await Promise.all([1, 2, 3, 4].map(() => call(asked)));
      return found.map((each) => each[0]);
    }}"""
    assert signed_in.evaluate(both) == [200] * 4
    assert refresh(signed_in) == 200


def test_another_site_cannot_use_the_cookie(
    signed_in: Page, server: ServerProcess, elsewhere: str
) -> None:
    context = signed_in.context
    attacker = context.new_page()
    attacker.goto(elsewhere)
    assert refresh(attacker, server.url) == 0, "the browser asks first, and nobody allows it"
    for route in (routes.BROWSER_REFRESH, routes.BROWSER_LOGOUT):
        # The browser shows the answer to nobody, so that it counts as failed.
        with context.expect_event(
            "requestfailed", lambda request, to=route: to.path in request.url
        ) as blind:
            attacker.evaluate(CALL, [server.url + route.path, None, False])
        assert "cookie" not in blind.value.all_headers(), "SameSite keeps it back"
        with attacker.expect_navigation() as sent:
            attacker.evaluate(SUBMIT, server.url + route.path)
        assert sent.value.status == 403
        attacker.goto(elsewhere)
    attacker.close()
    assert refresh(signed_in) == 200, "nothing has happened to the session"
