"""The error for values that are not plain."""


class PlainError(ValueError):
    """Says what is not plain, where in the value it is, and what to use instead."""

    def __init__(self, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.where = ""

    def below(self, step: str) -> None:
        """Called while unwinding: prepends one step to the path."""
        self.where = step + self.where

    def __str__(self) -> str:
        where = self.where if len(self.where) <= 200 else f"{self.where[:200]}…"
        place = f" (at value{where})" if where else ""
        return " ".join(filter(None, (self.detail + place, self.hint)))
