"""A claim on a real chain: the wallet of the browser sends it, and the contract pays."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from eth_account import Account
from playwright.sync_api import Browser, Page, expect

from potluck.chain.merkle import RewardLeaf
from potluck.chain.rewards_contract import claim_call
from tests.chain.anvil import Anvil
from tests.chain.fixtures import chain
from tests.databases import SHARED
from tests.end_to_end.test_contract import ContractPool, await_accepted, buy, work
from tests.processes import ServerProcess, await_true
from tests.server.pages.browser_wallet import BrowserWallet
from tests.web.conftest import WatchedPage
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


def sign(key: bytes, claim: dict[str, Any], **changes: Any) -> bytes:
    """The body that asks the server to send a claim which this key has signed."""
    fields = {"type": 2, "value": 0, **claim, **changes}
    raw = Account.sign_transaction(fields, key).raw_transaction
    return json.dumps({"transaction": f"0x{bytes(raw).hex()}"}).encode()


def check_refusals(pool: BrowserPool, server: ServerProcess) -> None:
    """Nothing but the own claim, signed by the own wallet, is sent."""
    client = server.client(server.sign_in(server.wallet))
    fees, proof = client.get("/v1/me/rewards/claim/fees"), client.get("/v1/me/rewards/claim")
    leaf = RewardLeaf(proof["account"], proof["token"], int(proof["cumulative_units"]))
    root, *nodes = (bytes.fromhex(text[2:]) for text in (proof["root"], *proof["proof"]))
    claim = {
        "chainId": proof["chain_id"],
        "to": proof["contract"],
        "data": claim_call(proof["contract"], leaf, root, nodes).data,
        "nonce": fees["nonce"],
        "gas": fees["gas"],
        "maxFeePerGas": int(fees["max_fee_wei"]),
        "maxPriorityFeePerGas": int(fees["max_tip_wei"]),
    }
    token = proof["token"]
    for key, changes, sentence in (
        (pool.alice.key, {}, "Another wallet"),
        (server.wallet.key, {"to": token}, "not for the contract"),
        (server.wallet.key, {"chainId": 1}, "not for the contract"),
        (server.wallet.key, {"data": claim["data"][:-1] + b"x"}, "not your claim"),
        (server.wallet.key, {"value": 1}, "not a signed transaction"),
    ):
        response = client.call("POST", "/v1/me/rewards/claim", sign(key, claim, **changes))
        assert sentence in response.data.decode(), (changes, response.data)
    response = client.call("POST", "/v1/me/rewards/claim", b'{"transaction": "0x02ff"}')
    assert b"not a signed transaction" in response.data
    assert pool.rig.balance(server.wallet.address) == 0


def claim_with_a_keystore(
    browser: Browser, pool: BrowserPool, server: ServerProcess, file: Path
) -> None:
    file.write_text(json.dumps(Account.encrypt(server.wallet.key, "correct horse", iterations=2)))
    with WatchedPage(browser) as page:
        dashboard = DashboardPage(page, server.url)
        dashboard.sign_in(server.wallet)
        dashboard.open("/rewards")
        page.get_by_text("With a keystore file").click()
        page.get_by_label("Keystore", exact=True).set_input_files(file)
        page.get_by_label("Its password").fill("correct horse")
        dashboard.press("Open it and claim")
        expect(page.get_by_text("Sent as")).to_be_visible()


def test_an_owner_claims_rewards_with_a_keystore_and_with_the_wallet_of_the_browser(
    browser: Browser, page: Page, build: Path, tmp_path: Path, chain: Anvil
) -> None:
    pool = BrowserPool(tmp_path, chain, SHARED.of(tmp_path))
    pool.environment["POTLUCK_DASHBOARD_DIRECTORY"] = str(build)
    with pool.start() as server, pool.start_treasury():
        alice, owner = pool.user(server, pool.alice), pool.user(server, server.wallet)
        buy(pool, alice)
        earned = work(pool, server, owner)
        await_accepted(pool, owner)
        before = pool.rig.balance(server.wallet.address)
        check_refusals(pool, server)
        snapshot = chain.ask("evm_snapshot")
        claim_with_a_keystore(browser, pool, server, tmp_path / "wallet.json")
        assert pool.rig.balance(server.wallet.address) == before + earned
        chain.ask("evm_revert", snapshot)
        assert pool.rig.balance(server.wallet.address) == before
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
