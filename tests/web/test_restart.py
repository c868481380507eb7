"""A server that goes away and comes back under an open page."""

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.processes import ServerProcess
from tests.web.dashboard_page import DashboardPage


def test_an_open_page_reconnects_to_a_server_that_was_killed(
    page: Page, build: Path, tmp_path: Path
) -> None:
    folder = str(build)
    with ServerProcess(tmp_path, POTLUCK_DASHBOARD_DIRECTORY=folder) as first:
        port = first.port
        dashboard = DashboardPage(page, first.url)
        dashboard.sign_in(first.wallet)
        dashboard.open("/tasks")
        expect(page.locator("[data-live=live]")).to_be_attached()
        first.client().submit("print()", name="before")
        expect(page.get_by_role("link", name="before")).to_be_visible()
        first.kill()
        expect(page.locator("[data-live=waiting], [data-live=connecting]")).to_be_attached()
    with ServerProcess(tmp_path, port, POTLUCK_DASHBOARD_DIRECTORY=folder) as second:
        expect(page.locator("[data-live=live]")).to_be_attached(timeout=60_000)
        second.client().submit("print()", name="after")
        expect(page.get_by_role("link", name="after")).to_be_visible(timeout=60_000)
        expect(page.get_by_role("link", name="before")).to_be_visible()


def test_a_reader_who_pauses_the_updates_sees_how_many_are_new(
    dashboard: DashboardPage, server: ServerProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    dashboard.open("/tasks")
    expect(page.locator("[data-live=live]")).to_be_attached()
    dashboard.press("Pause live updates")
    needs = {"device_kind": "gpu"}
    task_id = server.client().submit("print()", name="while paused", requirements=needs)
    expect(page.get_by_text("new", exact=False).first).to_be_visible()
    expect(page.get_by_role("link", name="while paused")).to_be_hidden()
    dashboard.press("Resume live updates")
    expect(page.get_by_role("link", name="while paused")).to_be_visible()
    server.client().post(f"/v1/tasks/{task_id}/cancel", {})


def test_a_hidden_page_has_no_connection_and_catches_up_when_it_is_shown(
    dashboard: DashboardPage, server: ServerProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    dashboard.open("/tasks")
    expect(page.locator("[data-live=live]")).to_be_attached()
    with page.expect_event("requestfailed", lambda sent: sent.url.endswith("/events/follow")):
        dashboard.hide(True)
    needs = {"device_kind": "gpu"}
    task_id = server.client().submit("print()", name="while hidden", requirements=needs)
    with page.expect_request("**/events/follow"):
        dashboard.hide(False)
    expect(page.get_by_role("link", name="while hidden")).to_be_visible()
    with page.expect_event("requestfailed", lambda sent: sent.url.endswith("/events/follow")):
        page.evaluate("window.dispatchEvent(new Event('pagehide'))")
    with page.expect_request("**/events/follow"):
        page.evaluate("window.dispatchEvent(new Event('pageshow'))")
    server.client().post(f"/v1/tasks/{task_id}/cancel", {})
