"""A claim on a real chain: the wallet of the browser sends it, and the contract pays."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from eth_account import Account
from playwright.sync_api import Page, expect

from tests.chain.anvil import Anvil
from tests.chain.fixtures import chain
from tests.databases import SHARED
from tests.end_to_end.test_contract import ContractPool, await_accepted, buy, work
from tests.processes import await_true
from tests.server.pages.browser_wallet import BrowserWallet
from tests.web.dashboard_page import DashboardPage

__all__ = ["chain"]


class SendingWallet(BrowserWallet):
    """Also sends transactions, as a wallet with a node of its own does."""

    def __init__(self, chain: Anvil) -> None:
        super().__init__("sender", chain.chain_id)
        self._anvil = chain

    def _answer(self, method: str, params_json: str) -> dict[str, Any]:
        if method != "eth_sendTransaction":
            return super()._answer(method, params_json)
        (given,) = json.loads(params_json)
        nonce = int(self._anvil.ask("eth_getTransactionCount", self.wallet.address, "latest"), 16)
        transaction = {
            "to": given["to"],
            "data": given["data"],
            "value": 0,
            "nonce": nonce,
            "gas": 500_000,
            "gasPrice": 10**10,
            "chainId": self.chain_id,
        }
        signed = Account.sign_transaction(transaction, self.wallet.key)
        raw = f"0x{signed.raw_transaction.hex().removeprefix('0x')}"
        return {"result": self._anvil.ask("eth_sendRawTransaction", raw)}


class BrowserPool(ContractPool):
    """Its statements run in a thread of their own: the browser's events have this one."""

    def sql(self, statement: str) -> Any:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(super().sql, statement).result()


def test_an_owner_claims_rewards_with_the_wallet_of_the_browser(
    page: Page, build: Path, tmp_path: Path, chain: Anvil
) -> None:
    pool = BrowserPool(tmp_path, chain, SHARED.of(tmp_path))
    pool.environment["POTLUCK_DASHBOARD_DIRECTORY"] = str(build)
    with pool.start() as server, pool.start_treasury():
        alice, owner = pool.user(server, pool.alice), pool.user(server, server.wallet)
        buy(pool, alice)
        earned = work(pool, server, owner)
        await_accepted(pool, owner)
        before = pool.rig.balance(server.wallet.address)
        dashboard = DashboardPage(page, server.url)
        wallet = SendingWallet(chain)
        wallet.wallet = server.wallet
        wallet.announce(page)
        dashboard.open("/rewards")
        dashboard.press("Sign in with Test Wallet")
        dashboard.expect_title("Rewards")
        dashboard.press("Claim with Test Wallet")
        expect(page.get_by_text("Sent as")).to_be_visible()
        assert pool.rig.balance(server.wallet.address) == before + earned
        pool.mine()
        paid = "SELECT coalesce(sum(amount_micro), 0)::bigint FROM payouts"
        await_true(lambda: pool.sql(paid) == earned, "the claim is in the ledger")
        page.reload()
        expect(page.get_by_text("Nothing to claim now.")).to_be_visible()
