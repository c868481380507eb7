"""The session in the profile, renewed while it is used.

Refresh tokens can be used once and are shared by all processes of a user, so one process at a time
refreshes: it locks the profile, reads it again, and uses a newer token if another process has saved
one. When the session has ended, a wallet that opens without a password prompt signs in again.
"""

import contextlib
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from potluck.consumer.http.transport import Transport, send_command
from potluck.consumer.identity import wallet
from potluck.consumer.identity.bearer import FixedToken
from potluck.consumer.identity.profile import (
    Profile,
    Session,
    load_profile_for,
    lock_profile,
    save_profile,
)
from potluck.consumer.identity.sign_in import make_session, refresh, sign_in
from potluck.model.error import LocalError, NotSignedIn, PotluckError
from potluck.wire import routes
from potluck.wire.identity import Tokens


class SavedSession:
    """The bearer of a profile's access token."""

    def __init__(self, anonymous: Transport):
        self._anonymous = anonymous
        self._session: Session | None = None

    def token(self) -> str:
        if self._session is None or self._ends_soon(self._session):
            self._session = self._renew(refused=None)
        return self._session.access_token

    def renewed(self, refused: str) -> str | None:
        self._session = self._renew(refused)
        return self._session.access_token

    def explained(self, refusal: NotSignedIn) -> NotSignedIn:
        return refusal

    def close(self) -> None:
        self._anonymous.close()

    def _renew(self, refused: str | None) -> Session:
        url = self._anonymous.url
        usable = self._usable(load_profile_for(url), refused)
        if usable is not None:
            return usable
        with lock_profile():
            saved = load_profile_for(url)
            if saved is None or saved.session is None:
                raise not_signed_in_error(url)
            usable = self._usable(saved, refused)
            if usable is not None:
                return usable
            session = make_session(self._next(saved, saved.session))
            save_profile(replace(saved, session=session))
            return session

    def _usable(self, saved: Profile | None, refused: str | None) -> Session | None:
        """The saved session, unless its token was refused or expires soon."""
        session = None if saved is None else saved.session
        if session is None or session.access_token == refused or self._ends_soon(session):
            return None
        return session

    def _next(self, saved: Profile, session: Session) -> Tokens:
        try:
            return refresh(self._anonymous, session.refresh_token)
        except NotSignedIn as error:
            try:
                loaded = wallet.load(Path(saved.key_file) if saved.key_file else None)
            except (LocalError, NotSignedIn):
                raise session_ended_error(self._anonymous.url) from error
            if loaded.address != session.address:
                raise session_ended_error(self._anonymous.url) from error
            return sign_in(self._anonymous, loaded)

    def _ends_soon(self, session: Session) -> bool:
        margin = timedelta(seconds=self._anonymous.patience.renew_seconds)
        return datetime.now(UTC) + margin >= session.access_expires_at


def replace_profile(anonymous: Transport, profile: Profile) -> Path:
    """Saves the profile, then tries to end the replaced session at the same server, whose tokens
    are gone from this machine."""
    with lock_profile():
        previous = load_profile_for(profile.url)
        path = save_profile(profile)
    if previous is not None and previous.session is not None:
        with contextlib.suppress(PotluckError):
            _end(anonymous, previous.session)
    return path


def _end(anonymous: Transport, session: Session) -> None:
    token = session.access_token
    if datetime.now(UTC) >= session.access_expires_at:
        token = refresh(anonymous, session.refresh_token).access_token
    with closing(
        Transport(anonymous.url, anonymous.patience, anonymous.ca_file, FixedToken(token))
    ) as transport:
        send_command(transport, routes.LOGOUT)


def not_signed_in_error(url: str) -> NotSignedIn:
    return NotSignedIn(
        f"You are not signed in to {url}.",
        f"Sign in with `potluck login {url}`, or set POTLUCK_TOKEN to an API key.",
    )


def session_ended_error(url: str) -> NotSignedIn:
    return NotSignedIn(f"Your session at {url} has ended.", f"Sign in again: potluck login {url}")
