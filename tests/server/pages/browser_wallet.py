"""A wallet in the browser, as an extension would put it there; it signs in Python.

With eth-account, so that what the page hands over is read by code that is not ours.
"""

import json
from typing import Any

from eth_account import Account
from eth_account.messages import encode_defunct
from playwright.sync_api import Page

from tests.wallets import Wallet

# EIP-1193: one `request`. What the Python side answers is a result or an error with its code.
_PROVIDER = """
const provider = {
  async request({ method, params }) {
    const answer = await window.answerWallet(method, JSON.stringify(params ?? []));
    if (answer.error) throw Object.assign(new Error(answer.error.message), answer.error);
    return answer.result;
  },
};
"""
_ANNOUNCED = """
const info = { uuid: crypto.randomUUID(), name: NAME, icon: "data:,", rdns: "test.wallet" };
const detail = Object.freeze({ info, provider });
const announce = () =>
  window.dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail }));
window.addEventListener("eip6963:requestProvider", announce);
announce();
"""


class BrowserWallet:
    """What a person does with it: signs, declines, or is on another chain."""

    def __init__(self, name: str, chain_id: int = 1) -> None:
        self.wallet = Wallet(name)
        self.chain_id = chain_id
        self.declines: set[str] = set()  # methods that the person says no to
        self.asked: list[tuple[str, Any]] = []

    def announce(self, page: Page, called: str = '"Test Wallet"') -> None:
        """As EIP-6963 has it; `called` is JavaScript, so that a test can be rude."""
        self._inject(page, _PROVIDER + _ANNOUNCED.replace("NAME", called))

    def stand_alone(self, page: Page) -> None:
        """As older wallets do: `window.ethereum`, and no announcement."""
        self._inject(page, _PROVIDER + "window.ethereum = provider;")

    def _inject(self, page: Page, script: str) -> None:
        page.expose_function("answerWallet", self._answer)
        page.add_init_script(f"(() => {{ {script} }})();")

    def _answer(self, method: str, params_json: str) -> dict[str, Any]:
        params = json.loads(params_json)
        self.asked.append((method, params))
        if method in self.declines:
            return {"error": {"code": 4001, "message": "User rejected the request."}}
        replies = {
            "eth_requestAccounts": self._accounts,
            "eth_chainId": self._chain,
            "personal_sign": self._sign_text,
            "eth_signTypedData_v4": self._sign_typed_data,
        }
        return {"result": replies[method](params)}

    def _accounts(self, _: list[str]) -> list[str]:
        return [self.wallet.address.lower()]  # as most wallets spell it

    def _chain(self, _: list[str]) -> str:
        return hex(self.chain_id)

    def _sign_text(self, params: list[str]) -> str:
        text, address = params
        assert address == self.wallet.address.lower()
        signed = Account.sign_message(encode_defunct(hexstr=text), self.wallet.key)
        return f"0x{signed.signature.hex()}"

    def _sign_typed_data(self, params: list[str]) -> str:
        address, typed_data = params
        assert address == self.wallet.address.lower()
        signed = Account.sign_typed_data(self.wallet.key, full_message=json.loads(typed_data))
        return f"0x{signed.signature.hex()}"

    def texts(self) -> list[str]:
        """What it was asked to sign, as its owner reads it."""
        return [
            bytes.fromhex(params[0][2:]).decode()
            for method, params in self.asked
            if method == "personal_sign"
        ]
