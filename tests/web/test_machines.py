"""An owner's machine on the dashboard: pause, hours, and taking it back."""

from playwright.sync_api import expect

from tests.processes import ProviderProcess, ServerProcess, await_true
from tests.web.dashboard_page import DashboardPage


def terms(server: ServerProcess, provider: ProviderProcess) -> dict[str, object]:
    node = server.client().get(f"/v1/nodes/{provider.node_id}")
    device_terms: dict[str, object] = node["devices"][0]["description"]["terms"]
    return device_terms


def test_a_device_is_paused_and_resumed(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    dashboard.open(f"/machines/{provider.node_id}")
    dashboard.expect_title("attic")
    dashboard.press("Pause")
    expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
    await_true(lambda: terms(server, provider)["is_paused"], "the machine has paused its device")
    dashboard.press("Resume")
    await_true(lambda: not terms(server, provider)["is_paused"], "it takes work again")


def test_price_and_painted_hours_reach_the_machine(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    dashboard.open(f"/machines/{provider.node_id}")
    page.get_by_text("Price, hours and limits").click()
    page.get_by_label("Price in credits for an hour").fill("0.000001")
    page.get_by_label("Highest power, in watts").fill("many")
    expect(page.get_by_text("A whole number from 1 to 100,000.")).to_be_visible()
    expect(page.get_by_role("button", name="Save the terms")).to_be_disabled()
    page.get_by_label("Highest power, in watts").fill("")
    dashboard.press("Weekends")
    page.get_by_role("gridcell", name="Monday 3:00").click()
    expect(page.get_by_label("As text")).to_have_value("mon 03:00-04:00, sat-sun")
    dashboard.press("Save the terms")
    expect(page.get_by_text("Sent. The machine applies it")).to_be_visible()
    await_true(lambda: terms(server, provider)["price_micro_per_hour"] == 1, "the price is there")
    assert terms(server, provider)["hours"] == "mon 03:00-04:00, sat-sun"
    expect(page.get_by_text("Price over time").locator("..")).to_contain_text("now 0.000001")
    page.get_by_label("Price in credits for an hour").fill("0")
    dashboard.press("Always")
    dashboard.press("Save the terms")
    await_true(lambda: terms(server, provider)["hours"] == "", "it is open always again")


def test_the_owner_takes_the_machine_back_while_a_task_runs(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    api = server.client()
    task_id = api.submit("import time\ntime.sleep(600)", name="long")
    await_true(lambda: api.task(task_id)["state"] == "running", "the task runs")
    dashboard.sign_in(server.wallet)
    dashboard.open("/machines")
    dashboard.press("I need my GPU")
    dashboard.press("Give it back to me now")
    await_true(lambda: api.task(task_id)["state"] == "queued", "the task has left the machine")
    expect(page.get_by_role("button", name="Offer it again")).to_be_visible()
    api.post(f"/v1/tasks/{task_id}/cancel", {})
    dashboard.press("Offer it again")
    await_true(lambda: not terms(server, provider)["is_paused"], "it takes work again")


def test_a_pool_without_a_contract_says_nothing_of_claims(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    for path in ("/rewards", "/operator/epochs"):
        dashboard.open(path)
        dashboard.expect_signed_in()
        expect(page.get_by_role("heading", level=2).first).to_be_visible()
        expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        expect(page.get_by_role("alert")).to_have_count(0)
    dashboard.open("/rewards")
    page.get_by_role("button", name="are paid out").click()
    expect(page.get_by_role("button", name="are paid out")).to_have_attribute(
        "aria-pressed", "true"
    )
    assert server.client().get("/v1/me/rewards")["rewards_to"] == "payout"
