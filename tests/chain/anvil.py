"""A real Ethereum node on loopback, of the tests' own: anvil, which npm brings.

`npm install` in this folder gets it, by the lock and its hashes; `scripts/test-needs.sh` does so.
"""

import itertools
import json
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3

from potluck.local.child_process import end_with_parent
from potluck.wire.signing.address import checksummed
from tests.processes import await_true

_PROGRAMS = Path(__file__).parent / "node_modules" / "@foundry-rs"
_READY = re.compile(rb"Listening on (127\.0\.0\.1:\d+)")
_SECONDS_TO_START = 30


def find_anvil() -> Path | None:
    """The program itself; each platform has a package of its own."""
    return next(iter(sorted(_PROGRAMS.glob("anvil-*/bin/anvil*"))), None)


class Anvil:
    """A chain with this id, and calls to it."""

    def __init__(self, url: str, chain_id: int) -> None:
        self.url = url
        self.chain_id = chain_id
        self._numbers = itertools.count(1)

    def deploy(self, runtime_code: bytes) -> str:
        """The address of a new contract with this code, put there by a transaction."""
        (sender, *_) = self.ask("eth_accounts")
        transaction = {"from": sender, "data": f"0x{_creation(runtime_code).hex()}"}
        number = self.ask("eth_sendTransaction", transaction)
        receipt = await_true(lambda: self.ask("eth_getTransactionReceipt", number), "it is mined")
        assert self.ask("eth_getCode", receipt["contractAddress"], "latest") == (
            f"0x{runtime_code.hex()}"
        )
        return checksummed(receipt["contractAddress"])

    def put(self, address: str, runtime_code: bytes) -> None:
        """The code at an address of somebody else's choice, as no transaction could."""
        self.ask("anvil_setCode", address, f"0x{runtime_code.hex()}")

    def ask(self, method: str, *params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        response = urllib3.request(
            "POST", self.url, json=body, timeout=_SECONDS_TO_START, retries=False
        )
        reply = json.loads(response.data)
        assert "error" not in reply, reply
        return reply["result"]


@contextmanager
def running_anvil(program: Path, chain_id: int) -> Iterator[Anvil]:
    command = [str(program), "--port", "0", "--chain-id", str(chain_id), "--accounts", "1"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=end_with_parent(signal.SIGTERM),
    )
    try:
        yield Anvil(f"http://{_address(process)}", chain_id)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _address(process: subprocess.Popen[bytes]) -> str:
    """Where it listens, from what it prints; the rest of that is read and dropped."""
    addresses: queue.Queue[str] = queue.Queue()

    def look() -> None:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if match := _READY.search(line):
                    addresses.put(match[1].decode())
        except ValueError:  # closed under our eyes
            pass

    threading.Thread(target=look, daemon=True).start()
    return addresses.get(timeout=_SECONDS_TO_START)


def _creation(runtime_code: bytes) -> bytes:
    """Code that runs once and leaves this code behind: copy it to memory, return it."""
    head = 11
    size = len(runtime_code).to_bytes(2)
    # PUSH2 size, DUP1, PUSH1 head, PUSH0, CODECOPY, PUSH0, RETURN
    opening = b"\x61" + size + b"\x80\x60" + bytes([head]) + b"\x5f\x39\x5f\xf3"
    return opening.ljust(head, b"\x00") + runtime_code
