"""Call streams and arrays on the dashboard: a grid of items, and each with its outcome."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

import potluck
from potluck.consumer import Potluck
from tests.processes import ProviderProcess, ServerProcess
from tests.web.dashboard_page import DashboardPage


def say(number: int) -> dict[str, int]:
    print("I am", number)
    if number == 2:
        raise ValueError("not two")
    return {"square": number * number}


def refuse_seven(number: int) -> int:
    if number == 7:
        raise ValueError("not seven")
    return number


def rest(seconds: float) -> float:
    import time

    time.sleep(seconds)
    return seconds


@pytest.fixture
def client(server: ServerProcess, provider: ProviderProcess) -> Iterator[Potluck]:
    with Potluck(server.url, server.token) as client:
        yield client


def choose(page: Page, title: str) -> None:
    page.get_by_role("option", name=title, exact=True).click()


def test_each_call_shows_what_it_returned_wrote_or_raised(
    dashboard: DashboardPage, server: ServerProcess, client: Potluck
) -> None:
    page = dashboard.page
    function = potluck.task(client=client)(say)
    futures = [function.submit(number) for number in range(4)]
    assert futures[3].result(60) == {"square": 9}
    task_id = futures[0].task_id.split("#")[0]
    dashboard.sign_in(server.wallet)
    dashboard.open(f"/tasks/{task_id}")
    expect(page.get_by_role("heading", name="3 of 4 calls succeeded")).to_be_visible()
    expect(page.get_by_text("It closes when idle:")).to_be_visible()
    expect(page.locator("header").get_by_text("idle")).to_be_visible()
    expect(page.get_by_text("It waits for calls: its 4 calls have ended.")).to_be_visible()
    choose(page, "Item 3: succeeded")
    expect(page.get_by_label("Its return value")).to_have_text("{'square': 9}")
    expect(page.get_by_label("Log of the item")).to_have_text("I am 3\n")
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile("item=2"))
    expect(page.get_by_label("Its error")).to_contain_text("ValueError: not two")
    dashboard.press("Close it now")
    dashboard.press("Close the stream")
    expect(page.get_by_text("each of its calls has an outcome")).to_be_visible()
    dashboard.press("Retry the call")
    dashboard.press("Submit the call again")
    expect(page.get_by_text("retry of")).to_be_visible()
    expect(page.get_by_label("The end of its error output")).to_contain_text("not two")


def test_a_call_is_cancelled_alone(
    dashboard: DashboardPage, server: ServerProcess, client: Potluck
) -> None:
    page = dashboard.page
    function = potluck.task(client=client)(rest)
    assert function.submit(0.0).result(60) == 0
    long = function.submit(600.0)
    dashboard.sign_in(server.wallet)
    dashboard.open(f"/tasks/{long.task_id.split('#')[0]}?tab=items&item=1")
    dashboard.press("Cancel the call")
    dashboard.press("Yes, cancel it")
    expect(page.get_by_role("option", name="Item 1: cancelled")).to_be_visible()
    expect(page.get_by_role("heading", name="Call 1 cancelled")).to_be_visible()
    assert function.submit(0.01).result(60) == 0.01
    expect(page.get_by_role("option", name="Item 2: succeeded")).to_be_visible()


def test_a_neighbour_of_a_failed_item_in_a_large_array_keeps_its_own_state(
    dashboard: DashboardPage, server: ServerProcess, client: Potluck
) -> None:
    """The ranges of such an array are rounded to blocks of two items."""
    page = dashboard.page
    function = potluck.task(client=client)(refuse_seven)
    results = function.map(range(5_500), return_exceptions=True)
    assert isinstance(list(results)[7], Exception)
    api = server.client()
    task_id = api.get("/v1/tasks?name=refuse_seven")["tasks"][0]["id"]
    assert api.get(f"/v1/tasks/{task_id}/items/states")["block_items"] == 2
    dashboard.sign_in(server.wallet)
    dashboard.open(f"/tasks/{task_id}?tab=items&item=6")
    expect(page.get_by_role("heading", name="Item 6 succeeded")).to_be_visible()
    expect(page.get_by_role("heading", name="5,499 of 5,500 items succeeded")).to_be_visible()
    expect(page.get_by_role("option", name="Items 6 to 11: some failed")).to_be_visible()
    choose(page, "Item 6: succeeded")
    choose(page, "Item 7: failed")
    expect(page.get_by_role("heading", name="Item 7 failed")).to_be_visible()
    expect(page.get_by_label("Its error")).to_contain_text("ValueError: not seven")
