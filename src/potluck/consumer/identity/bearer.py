"""What goes into the Authorization header, and where a better one comes from."""

from typing import Protocol

from potluck.model.error import BadSettings, NotSignedIn


class Bearer(Protocol):
    """Asked before every call."""

    def token(self) -> str:
        """The one to use now."""

    def renewed(self, refused: str) -> str | None:
        """Another one, after the server refused this; none if there is no way to get one."""

    def explained(self, refusal: NotSignedIn) -> NotSignedIn:
        """What the server said about it, with what to do about it here."""

    def close(self) -> None:
        """Ends what it holds open."""


class FixedToken:
    """An API key: what somebody was given, used as it is."""

    def __init__(self, token: str, variable: str | None = None):
        self._variable = variable
        if not (token.isascii() and token.isprintable()):
            raise BadSettings(
                "The token has characters that no token has.", "Copy it again, without line breaks."
            )
        self._token = token

    def token(self) -> str:
        return self._token

    def renewed(self, refused: str) -> str | None:  # noqa: ARG002 - there is only this one
        return None

    def explained(self, refusal: NotSignedIn) -> NotSignedIn:
        if self._variable is None:
            return refusal
        return NotSignedIn(
            f"The key in {self._variable} is not accepted. {refusal.detail}",
            f"Put another in its place, or `unset {self._variable}` to speak as your wallet.",
        )

    def close(self) -> None:
        pass
