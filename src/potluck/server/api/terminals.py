"""Signing in a terminal through a browser: ask, show, draft, approve or deny, poll."""

from datetime import UTC, datetime

from litestar import Controller, get, post

from potluck.model.account import SCOPES, Credential
from potluck.server.auth.device_flow import flow
from potluck.server.auth.device_flow.sign_in_draft import draft, statement
from potluck.server.services import Parts
from potluck.wire import routes
from potluck.wire.identity import (
    TerminalApproval,
    TerminalAsk,
    TerminalAsked,
    TerminalDraft,
    TerminalPoll,
    TerminalView,
    TerminalWallet,
    Tokens,
)


class TerminalController(Controller):
    @post(routes.ASK_FOR_TERMINAL.template, operation_id="ask_for_terminal")
    async def ask(self, data: TerminalAsk, parts: Parts) -> TerminalAsked:
        """A terminal asks to be let in: a code for the person, a secret for the terminal."""
        return await flow.ask(parts, data, datetime.now(UTC))

    @post(routes.TERMINAL_TOKEN.template, operation_id="terminal_token", status_code=200)
    async def poll(self, data: TerminalPoll, parts: Parts) -> Tokens:
        """The session once a wallet has approved it; until then, why not, as a code."""
        return await flow.poll(parts, data.device_code, datetime.now(UTC))

    @get(routes.SHOW_TERMINAL.template, operation_id="show_terminal")
    async def show(self, user_code: str, parts: Parts) -> TerminalView:
        """Who asks, and for what: read it before you sign."""
        pending = await flow.find(parts, user_code, datetime.now(UTC))
        return TerminalView(
            pending.user_code,
            pending.machine,
            sorted(SCOPES[Credential.SESSION]),
            statement(pending),
            pending.expires_at,
            pending.node_key,
        )

    @post(routes.DRAFT_TERMINAL.template, operation_id="draft_terminal", status_code=200)
    async def draft(self, user_code: str, data: TerminalWallet, parts: Parts) -> TerminalDraft:
        """What this wallet has to sign to approve it, good for minutes."""
        now = datetime.now(UTC)
        return draft(parts, await flow.find(parts, user_code, now), data, now)

    @post(routes.APPROVE_TERMINAL.template, operation_id="approve_terminal", status_code=204)
    async def approve(self, user_code: str, data: TerminalApproval, parts: Parts) -> None:
        """The wallet's yes. The first one makes the account, as a login does."""
        now = datetime.now(UTC)
        await flow.approve(parts, await flow.find(parts, user_code, now), data, now)

    @post(routes.DENY_TERMINAL.template, operation_id="deny_terminal", status_code=204)
    async def deny(self, user_code: str, parts: Parts) -> None:
        """No. The code is worth nothing from now on, and the terminal is told."""
        now = datetime.now(UTC)
        await flow.deny(parts, await flow.find(parts, user_code, now), now)
