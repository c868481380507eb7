"""Volumes on the dashboard: listed, shared, and mounted in a task that is submitted there."""

import re
from pathlib import Path

from playwright.sync_api import expect

import potluck
from tests.processes import ProviderProcess, ServerProcess, await_true
from tests.wallets import Wallet
from tests.web.dashboard_page import DashboardPage

READS = "print(open('/data/hello.txt').read())"


def test_a_volume_is_shared_and_mounted_in_a_task(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess, tmp_path: Path
) -> None:
    page = dashboard.page
    (tmp_path / "hello.txt").write_text("from the volume")
    with potluck.Potluck(server.url, server.token) as client:
        client.volumes.put("greetings", tmp_path)
    dashboard.sign_in(server.wallet)
    dashboard.open("/volumes")
    expect(page.get_by_role("heading", name="greetings")).to_be_visible()
    dashboard.press("Versions and sharing")
    expect(page.get_by_text("newest", exact=True)).to_be_visible()
    page.get_by_label("Share with these wallets").fill("0x123")
    expect(page.get_by_text("0x123 is not the address of a wallet.")).to_be_visible()
    other = Wallet("is shared with")
    page.get_by_label("Share with these wallets").fill(other.address)
    dashboard.press("Save")
    expect(page.get_by_text("Saved.")).to_be_visible()
    volumes = server.client(server.sign_in(other)).get("/v1/volumes")["volumes"]
    assert [(volume["name"], volume["is_own"]) for volume in volumes] == [("greetings", False)]
    page.get_by_role("link", name="Use in a task").click()
    dashboard.expect_title("Submit a task")
    expect(page.get_by_label("Volume", exact=True)).to_have_value("greetings:/data")
    page.get_by_label(re.compile("Source of")).fill(READS)
    dashboard.press("Submit the task")
    expect(page.get_by_role("region", name="Log")).to_contain_text("from the volume")
    page.get_by_role("tab", name="Details").click()
    expect(page.get_by_text(re.compile("greetings@[0-9a-f]{12}:/data"))).to_be_visible()


def test_a_volume_is_removed(
    dashboard: DashboardPage, server: ServerProcess, tmp_path: Path
) -> None:
    page = dashboard.page
    (tmp_path / "old.txt").write_text("old")
    wallet = Wallet("has an old volume")
    token = server.sign_in(wallet)
    with potluck.Potluck(server.url, token) as client:
        client.volumes.put("outdated", tmp_path)
    dashboard.sign_in(wallet)
    dashboard.open("/volumes")
    dashboard.press("Remove")
    dashboard.press("Remove it")
    expect(page.get_by_text("You have no volumes.")).to_be_visible()
    await_true(lambda: server.client(token).get("/v1/volumes")["volumes"] == [], "it is gone")
