"""A parameter of a template: a whole number, a number or a text, by what its default is."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import END, ArgumentText, LineText
from potluck.model.error import InvalidInput

ParameterName = Annotated[str, Meta(max_length=64, pattern=f"^[a-z][a-z0-9-]*{END}")]
ParameterValue = int | float | ArgumentText


class Parameter(Struct, frozen=True, forbid_unknown_fields=True):
    help: LineText = ""
    default: ParameterValue | None = None  # without one it is a text that must be given
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[ArgumentText, ...] = ()

    def read(self, name: str, given: str | None) -> ParameterValue:
        """What was given, as what the parameter is; its default if nothing was."""
        if given is None and self.default is None:
            raise InvalidInput(
                f"The parameter {name} must be given.", f"Say it with -p {name}={self.shape}."
            )
        value = self.default if given is None else self._parsed(name, given)
        assert value is not None
        if self.choices and value not in self.choices:
            raise InvalidInput(f"-p {name}={value} is none of its choices.", f"Say {self.range}.")
        if isinstance(value, int | float) and not self._is_within(value):
            raise InvalidInput(f"-p {name}={value} is out of range.", f"Say {self.range}.")
        return value

    @property
    def shape(self) -> str:
        """What it is, in one word for people."""
        if isinstance(self.default, int):
            return "INTEGER"
        return "NUMBER" if isinstance(self.default, float) else "TEXT"

    @property
    def range(self) -> str:
        """What it may be; empty where it may be anything."""
        if self.choices:
            return " or ".join(self.choices)
        if self.minimum is not None and self.maximum is not None:
            return f"{self.minimum:,} to {self.maximum:,}"
        if self.minimum is not None:
            return f"at least {self.minimum:,}"
        return "" if self.maximum is None else f"at most {self.maximum:,}"

    def check(self, name: str, file: Path) -> None:
        """A default that could not be given is a mistake of whoever wrote the template."""
        if self.default is None:
            return
        try:
            self.read(name, None)
        except InvalidInput as error:
            raise InvalidInput(
                f"{file} is wrong: the default of {name}: {error.detail}", error.hint
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
        return least <= value <= most  # of what is no number, never
