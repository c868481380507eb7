"""axe on every page, in light and dark, on a desktop and a phone, with a picture of each."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.processes import ProviderProcess, ServerProcess
from tests.web.conftest import ROOT, WatchedPage
from tests.web.dashboard_page import DashboardPage
from tests.web.pages import pages
from tests.web.test_tasks import PICTURE

AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
RUN = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
SQUARES = """
import os, sys
item = int(os.environ["POTLUCK_ITEM"])
print("the square is", item * item)
sys.exit("no square today" if item == 7 else 0)
"""
# What is looked at unfolded.
UNFOLDED = {"submit": "More options"}
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def task_id(server: ServerProcess, provider: ProviderProcess) -> str:
    api = server.client()
    square_id = api.submit(PICTURE, name="square")
    api.finished(square_id)
    return square_id


@pytest.fixture(scope="module")
def array_id(server: ServerProcess, provider: ProviderProcess) -> str:
    """One of its items has failed."""
    api = server.client()
    array_id = api.submit(SQUARES, name="squares", items=40)
    assert api.finished(array_id)["items"]["failed"] == 1
    return array_id


# Two of the four are enough to find a page that was forgotten; colours and sizes are independent.
@pytest.mark.parametrize(
    ("screen", "theme"),
    [
        ("desktop", "light"),
        ("phone", "dark"),
        pytest.param("desktop", "dark", marks=pytest.mark.long),
        pytest.param("phone", "light", marks=pytest.mark.long),
    ],
)
def test_no_page_has_a_serious_violation(
    browser: Browser,
    server: ServerProcess,
    provider: ProviderProcess,
    task_id: str,
    array_id: str,
    theme: str,
    screen: str,
    tmp_path: Path,
) -> None:
    # A place to look at them; without one they go with the test.
    pictures = Path(os.environ.get("POTLUCK_PICTURES") or tmp_path)
    pictures.mkdir(parents=True, exist_ok=True)
    with WatchedPage(browser, is_phone=screen == "phone", is_dark=theme == "dark") as page:
        dashboard = DashboardPage(page, server.url)
        dashboard.bring_wallet(server.wallet)
        dashboard.open("/sign-in")
        expect(page.get_by_role("button", name="Sign in with Test Wallet")).to_be_visible()
        violations = look(page, pictures / f"sign-in-{screen}-{theme}.png")
        dashboard.press("Sign in with Test Wallet")
        dashboard.expect_signed_in()
        items = {"task-items": f"/tasks/{array_id}?tab=items&item=7"}
        for name, path in (pages(task_id, provider.node_id) | items).items():
            dashboard.open(path)
            dashboard.expect_signed_in()  # until then there is only a sign that it loads
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            if name in UNFOLDED:
                page.get_by_text(UNFOLDED[name]).click()
            expect(page.get_by_role("status", name="Loading")).to_have_count(0)
            violations += [
                f"{name}: {violation}"
                for violation in look(page, pictures / f"{name}-{screen}-{theme}.png")
            ]
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (
                f"{name} is wider than the screen"
            )
    assert violations == []


def look(page: Page, picture: Path) -> list[str]:
    page.screenshot(path=picture)
    page.evaluate(AXE.read_text())
    violations: list[dict[str, Any]] = page.evaluate(RUN)
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in violations
        if violation["impact"] in SERIOUS
        for node in violation["nodes"][:3]
    ]


def test_the_keyboard_reaches_the_search_the_keys_and_the_pages(
    dashboard: DashboardPage, server: ServerProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    page.keyboard.press("g")
    page.keyboard.press("t")
    dashboard.expect_title("Tasks")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search by name")).to_be_focused()
    page.keyboard.type("?")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
