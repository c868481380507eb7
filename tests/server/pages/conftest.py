"""A real browser on a real server. The browser is the system's; none is ever downloaded."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from tests.conftest import need
from tests.processes import Api, ServerProcess

_NAMES = ("chromium", "chromium-browser", "google-chrome")
# Said by the browser when something on the page is against the policy.
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.effectiveDirective} ${event.blockedURI}`));
"""


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        need("chromium")
        return
    with sync_playwright() as playwright:
        # Inside a container there is no place for its sandbox; it sees only our own pages.
        started = playwright.chromium.launch(executable_path=program, chromium_sandbox=False)
        yield started
        started.close()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("server")
    with ServerProcess(directory, POTLUCK_TERMINAL_POLL_SECONDS="0.05") as running:
        yield running


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[Api]:
    """The same for a server whose codes last for two seconds."""
    with ServerProcess(tmp_path, POTLUCK_TERMINAL_SECONDS="2") as running:
        api = Api(running.url, "")
        yield api
        api.close()


@pytest.fixture
def anybody(server: ServerProcess) -> Iterator[Api]:
    """Somebody without a token."""
    api = Api(server.url, "")
    yield api
    api.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Narrow as a telephone. Whatever a test does, the policy holds and nothing pops up."""
    context = browser.new_context(viewport={"width": 360, "height": 740})
    context.set_default_timeout(10_000)
    page = context.new_page()
    dialogs: list[str] = []
    errors: list[str] = []
    hosts: set[str] = set()

    def note_dialog(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note_dialog)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname or ""))
    page.add_init_script(_WATCH)
    yield page
    violations = page.evaluate("window.violations")
    context.close()
    assert (violations, dialogs, errors) == ([], [], [])
    assert hosts == {"127.0.0.1"}
