"""What is no plain value."""


class PlainError(ValueError):
    """Says what does not fit, where in the value it is, and what would fit."""

    def __init__(self, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.where = ""

    def below(self, step: str) -> None:
        """Called on the way up: the place is one step further down from here."""
        self.where = step + self.where

    def __str__(self) -> str:
        where = self.where if len(self.where) <= 200 else f"{self.where[:200]}…"
        place = f" (at value{where})" if where else ""
        return " ".join(filter(None, (self.detail + place, self.hint)))
