"""The operator's pages: events as they happen, throughput over time, quotas, audit, all tasks."""

from playwright.sync_api import expect

from tests.processes import ProviderProcess, ServerProcess, await_true
from tests.wallets import Wallet
from tests.web.dashboard_page import DashboardPage

NEEDS_A_GPU = {"device_kind": "gpu"}


def test_an_event_of_another_account_appears_by_itself_without_its_name(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    watched = server.client(server.sign_in(Wallet("is watched by the operator")))
    dashboard.sign_in(server.wallet)
    dashboard.open("/operator")
    panel = page.locator("section", has=page.get_by_role("heading", name="As it happens"))
    expect(panel.get_by_text("live", exact=True)).to_be_visible()
    # The panel has a dozen events of all accounts: those of this one are told by its link.
    account = watched.get("/v1/me")["id"]
    link = page.locator(f"a[href='/operator/tasks?account={account}']")
    events = panel.get_by_role("listitem").filter(has=link)
    expect(events).to_have_count(0)
    task_id = watched.submit("print()", name="a private name", requirements=NEEDS_A_GPU)
    expect(events.get_by_text("task queued")).to_have_count(1)
    watched.post(f"/v1/tasks/{task_id}/cancel", {})
    expect(events.get_by_text("task cancelled")).to_have_count(1)
    expect(page.get_by_text("a private name")).to_have_count(0)
    expect(page.get_by_role("img", name="tasks succeeded")).to_be_visible()
    page.get_by_role("button", name="Week").click()
    expect(page.get_by_role("img", name="tasks succeeded")).to_be_visible()


def test_a_quota_is_set_and_its_owner_sees_it(
    dashboard: DashboardPage, server: ServerProcess
) -> None:
    page = dashboard.page
    owner = server.client(server.sign_in(Wallet("has a quota")))
    me = owner.get("/v1/me")
    dashboard.sign_in(server.wallet)
    dashboard.open(f"/operator/accounts?find={me['address']}")
    dashboard.press("Manage")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Waiting tasks").fill("many")
    expect(dialog.get_by_text("A whole number from 0 to 2,147,483,647.")).to_be_visible()
    expect(dialog.get_by_role("button", name="Save the quota")).to_be_disabled()
    dialog.get_by_label("Waiting tasks").fill("7")
    dialog.get_by_label("Stored files").fill("2 GiB")
    dialog.get_by_role("button", name="Save the quota").click()
    expect(dialog.get_by_text("The quota has changed.")).to_be_visible()
    dialog.get_by_label("Amount").fill("1,000")
    expect(dialog.get_by_text("Write it like 0.5 or 1000.")).to_be_visible()
    expect(dialog.get_by_role("button", name="Grant")).to_be_disabled()
    quota = await_true(lambda: owner.get("/v1/me")["quota"], "it has a quota")
    assert (quota["max_queued_tasks"], quota["max_blob_bytes"]) == (7, 2 * 2**30)


def test_an_account_is_found_and_suspended_with_a_reason(
    dashboard: DashboardPage, server: ServerProcess
) -> None:
    page = dashboard.page
    wallet = Wallet("is suspended")
    owner = server.client(server.sign_in(wallet))
    dashboard.sign_in(server.wallet)
    dashboard.open("/operator/accounts")
    page.get_by_label("Search accounts").press_sequentially(wallet.address[:12])
    expect(page.get_by_role("button", name="Manage")).to_have_count(1)
    dashboard.press("Manage")
    dialog = page.get_by_role("dialog")
    suspend = dialog.get_by_role("button", name="Suspend", exact=True)
    expect(suspend).to_be_disabled()
    dialog.get_by_label("Reason to suspend it").fill("mines coins")
    suspend.click()
    expect(dialog.get_by_role("button", name="Resume the account")).to_be_visible()
    refused = owner.call("POST", "/v1/tasks", b"{}")
    assert refused.status in (401, 403)


def test_the_audit_log_names_accounts_and_shows_whole_ids(
    dashboard: DashboardPage, server: ServerProcess
) -> None:
    page = dashboard.page
    stranger = server.client(server.sign_in(Wallet("is in the audit log")))
    account = stranger.get("/v1/me")["id"]
    label = b'{"label": "Grace, chemistry"}'
    assert server.client().call("PUT", f"/v1/accounts/{account}/label", label).status < 300
    grant = b'{"amount_micro": 1500000}'
    assert server.client().call("POST", f"/v1/accounts/{account}/grants", grant).status == 204
    dashboard.sign_in(server.wallet)
    dashboard.open("/operator/audit")
    row = page.get_by_role("row", name="Credit granted").first
    expect(row).to_contain_text("Grace, chemistry")
    expect(row).to_contain_text("1.50 credits")
    row.get_by_role("button", name="Credit granted").click()
    expect(page.get_by_role("dialog")).to_contain_text(account)
    page.keyboard.press("Escape")
    dashboard.press("Check the chain")
    expect(page.get_by_role("status").filter(has_text="intact")).to_be_visible()


def test_the_tasks_of_one_account_are_only_its_own(
    dashboard: DashboardPage, server: ServerProcess
) -> None:
    page = dashboard.page
    first = server.client(server.sign_in(Wallet("one of two accounts")))
    other = server.client(server.sign_in(Wallet("the other of two accounts")))
    tasks = [client.submit("print()", requirements=NEEDS_A_GPU) for client in (first, other)]
    dashboard.sign_in(server.wallet)
    dashboard.open(f"/operator/tasks?account={first.get('/v1/me')['id']}")
    expect(page.get_by_title(tasks[0])).to_be_visible()
    expect(page.get_by_title(tasks[1])).to_have_count(0)
    for client, task_id in zip((first, other), tasks, strict=True):
        client.post(f"/v1/tasks/{task_id}/cancel", {})
