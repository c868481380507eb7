"""The last line of the screen, when it asks for something: yes or no, or words."""

from collections.abc import Callable
from typing import Protocol


class PromptLine(Protocol):
    """Takes every key until it has what it asked for."""

    @property
    def text(self) -> str: ...

    def press(self, key: str, character: str | None) -> bool:
        """Whether that was all."""
        ...


class YesNoQuestion:
    """Yes is y; whatever else is pressed is no."""

    def __init__(self, question: str, certainly: Callable[[], None]):
        self.text = f"{question} [y/N]"
        self._certainly = certainly

    def press(self, key: str, _: str | None) -> bool:
        if key in ("y", "Y"):
            self._certainly()
        return True


class Typing:
    """Words, told with every key. Enter keeps them, Escape forgets them."""

    def __init__(self, words: str, tell: Callable[[str], None]):
        self._words = words
        self._tell = tell

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
        self._tell(self._words)
        return key == "escape"
