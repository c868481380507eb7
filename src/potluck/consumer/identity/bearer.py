"""The token for the Authorization header, and its renewal."""

from typing import Protocol

from potluck.model.error import BadSettings, NotSignedIn


class Bearer(Protocol):
    """Supplies the token of every call."""

    def token(self) -> str:
        """The token to use now."""

    def renewed(self, refused: str) -> str | None:
        """Another token after the server refused this one; None if it cannot be renewed."""

    def explained(self, refusal: NotSignedIn) -> NotSignedIn:
        """The server's error, with a hint for this kind of token."""

    def close(self) -> None:
        """Closes its connections."""


class FixedToken:
    """An API key, which cannot be renewed."""

    def __init__(self, token: str, variable: str | None = None):
        self._variable = variable
        if not (token.isascii() and token.isprintable()):
            raise BadSettings(
                "The token contains invalid characters.", "Copy it again, without line breaks."
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
            f"Set it to another key, or `unset {self._variable}` to use your wallet's session.",
        )

    def close(self) -> None:
        pass
