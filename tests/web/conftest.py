"""The dashboard in a real browser, on a real server with a real provider.

Server, provider and build are shared by all tests of this folder. Each page notes what must never
happen: a dialog, an error in a script, a violation of the policy, a request to elsewhere.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright

from tests.conftest import need
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess
from tests.web.dashboard_page import DashboardPage

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "src" / "potluck" / "server" / "pages" / "dashboard"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.effectiveDirective} ${event.blockedURI}`));
"""


@pytest.fixture(scope="session")
def build() -> Path:
    """The dashboard of these sources: built once, and not again until they change."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        need("Node")
    command = [sys.executable, "-m", "scripts.web"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stdout + process.stderr
    return BUILD


def chromium() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    program = chromium()
    if program is None:
        need("chromium")
        return
    expect.set_options(timeout=30_000)  # for a busy machine
    with sync_playwright() as playwright:
        # Inside a container there is no place for its sandbox; it sees only our own pages.
        started = playwright.chromium.launch(executable_path=program, chromium_sandbox=False)
        yield started
        started.close()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory, build: Path) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("server")
    with ServerProcess(directory, POTLUCK_DASHBOARD_DIRECTORY=str(build)) as running:
        yield running


@pytest.fixture(scope="package")
def provider(
    tmp_path_factory: pytest.TempPathFactory, server: ServerProcess
) -> Iterator[ProviderProcess]:
    """A machine of the operator."""
    directory = tmp_path_factory.mktemp("provider")
    name = {"POTLUCK_PROVIDER_NAME": "attic"}
    with ProviderProcess(directory, server, **FAST_PROVIDER, **name) as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with WatchedPage(browser) as page:
        yield page


@pytest.fixture
def dashboard(page: Page, server: ServerProcess) -> DashboardPage:
    """Nobody is signed in yet."""
    return DashboardPage(page, server.url)


class WatchedPage:
    """A page that must stay on this machine and within the policy."""

    def __init__(self, browser: Browser, is_phone: bool = False, is_dark: bool = False) -> None:
        self._context = browser.new_context(
            viewport={"width": 390, "height": 844} if is_phone else {"width": 1360, "height": 900},
            color_scheme="dark" if is_dark else "light",
            locale="en-GB",
            timezone_id="Europe/Berlin",
            reduced_motion="reduce",
            has_touch=is_phone,
        )
        self._context.set_default_timeout(20_000)
        self._context.add_init_script(_WATCH)
        self._dialogs: list[str] = []
        self._errors: list[str] = []
        self._hosts: set[str] = set()

    def __enter__(self) -> Page:
        self._page = self._context.new_page()
        self._page.on("dialog", self._note_dialog)
        self._page.on("pageerror", lambda error: self._errors.append(str(error)))
        self._page.on(
            "request", lambda request: self._hosts.add(urlsplit(request.url).hostname or "")
        )
        return self._page

    def _note_dialog(self, dialog: Dialog) -> None:
        self._dialogs.append(dialog.message)
        dialog.dismiss()

    def __exit__(self, *raised: object) -> None:
        violations = self._page.evaluate("window.violations ?? []")
        self._context.close()
        assert (violations, self._dialogs, self._errors) == ([], [], [])
        # A picture of a file has an address of its own page, without a host.
        assert self._hosts <= {"127.0.0.1", ""}
