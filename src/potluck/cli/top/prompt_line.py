"""Prompts on the last line of the screen: yes or no, or filter text."""

from collections.abc import Callable
from typing import Protocol


class PromptLine(Protocol):
    """Takes every key until it is complete."""

    @property
    def text(self) -> str: ...

    def press(self, key: str, character: str | None) -> bool:
        """Handles a key; whether the prompt is complete."""
        ...


class YesNoPrompt:
    """`y` confirms; any other key declines."""

    def __init__(self, question: str, on_yes: Callable[[], None]):
        self.text = f"{question} [y/N]"
        self._on_yes = on_yes

    def press(self, key: str, _: str | None) -> bool:
        if key in ("y", "Y"):
            self._on_yes()
        return True


class FilterPrompt:
    """Filter text, applied with every key. Enter keeps it, Escape clears it."""

    def __init__(self, words: str, on_change: Callable[[str], None]):
        self._words = words
        self._on_change = on_change

    @property
    def text(self) -> str:
        return f"/{self._words}▏ Enter keeps it, Escape shows all"

    def press(self, key: str, character: str | None) -> bool:
        if key == "enter":
            return True
        if key == "escape":
            self._words = ""
        elif key == "backspace":
            self._words = self._words[:-1]
        elif character is not None:
            self._words += character
        self._on_change(self._words)
        return key == "escape"
