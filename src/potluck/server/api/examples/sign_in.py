"""Signing in: a wallet, a terminal through a browser, a node."""

from typing import Final

from potluck.model.account import SCOPES, Credential
from potluck.server.api.examples.example import NOTHING, Area, Example
from potluck.server.api.examples.names import (
    ACCOUNT,
    NODE_KEY,
    ORIGIN,
    SHA256,
    SIGNATURE,
    USER_CODE,
    WALLET,
    WHEEL,
    at,
)
from potluck.wire.identity import (
    Challenge,
    Login,
    NodeLogin,
    NodeToken,
    Refresh,
    TerminalApproval,
    TerminalAsk,
    TerminalAsked,
    TerminalDraft,
    TerminalPoll,
    TerminalView,
    TerminalWallet,
    Tokens,
)
from potluck.wire.package import Package
from potluck.wire.signing.sign_in_answer import NODE_STATEMENT, TERMINAL_STATEMENT
from potluck.wire.signing.sign_in_message import SignIn, write

_NONCE = "7Jk3mQ9xT2vB6cR8wL5d"
_STATEMENT = f"{TERMINAL_STATEMENT}{USER_CODE}."
_ACCESS = "eyJhbGciOiJIUzI1NiJ9.e30.not-a-real-token"
_REFRESH = "potluck_refresh_not-a-real-one"
_DEVICE_CODE = "potluck_terminal_not-a-real-one"
_PEM = "-----BEGIN CERTIFICATE-----\nMIIB…\n-----END CERTIFICATE-----\n"
_PACKAGE = Package("potluck", "0.1.0+5f3a9c1e", WHEEL, SHA256, 1_204_881, requires_python=">=3.11")


def _message(address: str, statement: str | None = None) -> str:
    said = SignIn(
        domain=ORIGIN.partition("://")[2],
        address=address,
        uri=ORIGIN,
        version="1",
        chain_id=1,
        nonce=_NONCE,
        issued_at="2026-11-16T09:30:00Z",
        statement=statement,
    )
    return write(said)


_TOKENS = Tokens(_ACCESS, 900.0, _REFRESH, ACCOUNT, WALLET)

AREA: Final = Area(
    "sign in",
    "An account is a wallet. Ask for a challenge, sign the EIP-4361 message that it makes, and "
    "trade it for a session; the first one makes the account. For CI and scripts make an API key "
    "once, and send it as the bearer.",
    {
        "challenge": Example(
            "Ask for a challenge", answer=Challenge(_NONCE, at(9, 35), [ORIGIN], [1])
        ),
        "login": Example(
            "Sign in with a wallet",
            Login(_message(WALLET), SIGNATURE, machine="laptop"),
            _TOKENS,
            also=(401, 403),
        ),
        "refresh": Example(
            "Get the next pair of tokens", Refresh(_REFRESH), _TOKENS, also=(401, 403)
        ),
        "logout": Example("Sign out", answer=NOTHING),
        "ask_for_terminal": Example(
            "Ask to sign a terminal in",
            TerminalAsk("laptop"),
            TerminalAsked(
                _DEVICE_CODE,
                USER_CODE,
                f"{ORIGIN}/device",
                f"{ORIGIN}/device#{USER_CODE}",
                900.0,
                2.0,
            ),
        ),
        "terminal_token": Example(
            "Poll for a terminal's session", TerminalPoll(_DEVICE_CODE), _TOKENS, also=(403,)
        ),
        "show_terminal": Example(
            "See which terminal asks",
            answer=TerminalView(
                USER_CODE,
                "laptop",
                sorted(SCOPES[Credential.SESSION]),
                _STATEMENT,
                at(9, 45),
            ),
        ),
        "draft_terminal": Example(
            "Draft what approves a terminal",
            TerminalWallet(WALLET, 1, ORIGIN),
            TerminalDraft(_message(WALLET, _STATEMENT), 1),
        ),
        "approve_terminal": Example(
            "Approve a terminal",
            TerminalApproval(_message(WALLET, _STATEMENT), SIGNATURE),
            NOTHING,
            also=(401, 403, 409),
        ),
        "deny_terminal": Example("Deny a terminal", answer=NOTHING, also=(409,)),
        "node_login": Example(
            "Sign in with a node key",
            NodeLogin(_message(NODE_KEY, NODE_STATEMENT), SIGNATURE),
            NodeToken(_ACCESS, 900.0, ACCOUNT),
            also=(401, 403),
        ),
        "package": Example("See what this pool installs", answer=_PACKAGE, also=(404,)),
        "package_file": Example("Fetch the pool's own wheel", answer=b"PK"),
        "ca_certificate": Example(
            "Fetch the pool's certificate authority", answer=_PEM, also=(404,)
        ),
    },
)
