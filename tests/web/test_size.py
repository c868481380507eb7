"""What a browser loads before the first page is there."""

import gzip
import re
from pathlib import Path

from playwright.sync_api import Page, Response

from tests.processes import ServerProcess
from tests.web.dashboard_page import DashboardPage

MOST_SCRIPT_BYTES = 200_000


def test_the_first_page_loads_little_script(page: Page, server: ServerProcess, build: Path) -> None:
    loaded: list[str] = []

    def note(response: Response) -> None:
        if response.url.endswith(".js"):
            loaded.append(response.url.rsplit("/", 1)[1])

    page.on("response", note)
    dashboard = DashboardPage(page, server.url)
    dashboard.open("/")
    dashboard.expect_title("Sign in")
    assert loaded
    sizes = {name: len(gzip.compress((build / "assets" / name).read_bytes(), 9)) for name in loaded}
    assert sum(sizes.values()) < MOST_SCRIPT_BYTES, sizes


def test_the_page_has_no_script_or_style_of_its_own(build: Path) -> None:
    page = (build / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert "<style" not in page and "style=" not in page
    assert re.findall(r"\bon\w+=", page) == []


def test_the_code_that_signs_is_loaded_only_to_sign(page: Page, server: ServerProcess) -> None:
    loaded: list[str] = []
    page.on("response", lambda response: loaded.append(response.url))
    dashboard = DashboardPage(page, server.url)
    dashboard.sign_in("somebody")
    dashboard.open("/tasks")
    dashboard.expect_title("Tasks")
    before = len(loaded)
    page.reload()
    dashboard.expect_signed_in()
    assert not [url for url in loaded[before:] if "local_key" in url or "getAddress" in url]
