"""A parameter of a template: an integer, a number or a text, as its default."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import END, ArgumentText, LineText
from potluck.model.error import InvalidInput

ParameterName = Annotated[str, Meta(max_length=64, pattern=f"^[a-z][a-z0-9-]*{END}")]
ParameterValue = int | float | ArgumentText


class Parameter(Struct, frozen=True, forbid_unknown_fields=True):
    help: LineText = ""
    default: ParameterValue | None = None  # None: a text that must be given
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[ArgumentText, ...] = ()

    def read(self, name: str, given: str | None) -> ParameterValue:
        """The given value, converted and checked; the default if there is none."""
        if given is None and self.default is None:
            raise InvalidInput(
                f"The parameter {name} must be given.", f"Give it with -p {name}={self.shape}."
            )
        value = self.default if given is None else self._parsed(name, given)
        assert value is not None
        if self.choices and value not in self.choices:
            raise InvalidInput(f"-p {name}={value} is not a choice.", f"Choose {self.range}.")
        if isinstance(value, int | float) and not self._is_within(value):
            raise InvalidInput(f"-p {name}={value} is out of range.", f"Use {self.range}.")
        return value

    @property
    def shape(self) -> str:
        """Its type in one word, for display."""
        if isinstance(self.default, int):
            return "INTEGER"
        return "NUMBER" if isinstance(self.default, float) else "TEXT"

    @property
    def range(self) -> str:
        """The allowed values; empty if there is no limit."""
        if self.choices:
            return " or ".join(self.choices)
        if self.minimum is not None and self.maximum is not None:
            return f"{self.minimum:,} to {self.maximum:,}"
        if self.minimum is not None:
            return f"at least {self.minimum:,}"
        return "" if self.maximum is None else f"at most {self.maximum:,}"

    def check(self, name: str, file: Path) -> None:
        """Raises for an invalid default, which is a mistake in the template."""
        if self.default is None:
            return
        try:
            self.read(name, None)
        except InvalidInput as error:
            raise InvalidInput(
                f"{file} is invalid: the default of {name}: {error.detail}", error.hint
            ) from error

    def _parsed(self, name: str, given: str) -> ParameterValue:
        if isinstance(self.default, str) or self.default is None:
            return given
        kind = type(self.default)
        try:
            return kind(given)
        except ValueError as error:
            what = "a whole number" if kind is int else "a number"
            raise InvalidInput(
                f"-p {name}={given} is not {what}.", f"Write it like -p {name}={self.default}."
            ) from error

    def _is_within(self, value: int | float) -> bool:
        least = value if self.minimum is None else self.minimum
        most = value if self.maximum is None else self.maximum
        return least <= value <= most  # false for NaN
