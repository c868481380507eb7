"""Text of other people's programs, made safe for a terminal.

Terminals obey sequences that set the clipboard or the title, clear the screen, or type an answer.
What passes is

- printable text, line feeds, tabs, carriage returns and backspaces;
- colours and styles (SGR), which end with the stream;
- what progress bars need: erasing the line, moving within it, and up and down within the lines
  that were written.

Everything else is shown in caret notation: ESC as `^[`, and U+009B, or the byte 0x9B alone, as
`M-^[`; characters that reorder text by their numbers. Hiding the cursor is ignored. The result does
not depend on how the bytes are cut.
"""

import codecs
import re

_RESET = "\x1b[0m"
_UP, _DOWN, _ERASE = "A", "B", "K"
# A longer list of parameters is not a sequence, so that one without an end is not held back.
_MOST_PARAMETERS = 64
_SPECIAL = re.compile(
    rf"\x1b\[(?P<style>[0-9;:]{{0,{_MOST_PARAMETERS}}})m"
    r"|\x1b\[(?P<number>[0-9]{0,4})(?P<move>[ABCDGK])"
    r"|(?P<cursor>\x1b\[\?25[hl])"
    r"|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]"
)
_INCOMPLETE = re.compile(rf"\x1b(?:\[(?:[0-9;:]{{0,{_MOST_PARAMETERS}}}|\?(?:25?)?))?\Z")


class WrittenLines:
    """The lines between which a cursor may move; streams on one terminal share them."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Here is the first line: what was written before is out of reach."""
        self._line = self._last = 0

    def pass_text(self, text: str) -> None:
        self._line += text.count("\n")
        self._last = max(self._line, self._last)

    def move(self, count: int, direction: str) -> int:
        """Returns by how many lines the cursor may move."""
        room = self._line if direction == _UP else self._last - self._line
        moved = min(count, room)
        self._line += -moved if direction == _UP else moved
        return moved


class TerminalFilter:
    """Filters one stream, piece by piece."""

    def __init__(self, lines: WrittenLines | None = None) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._lines = lines or WrittenLines()
        self._pending = ""
        self._is_styled = False

    def feed(self, data: bytes) -> str:
        """A sequence or a character that is not complete yet is kept for the next piece."""
        return self.feed_text(self._decoder.decode(data))

    def feed_text(self, text: str) -> str:
        text = self._pending + text
        incomplete = _INCOMPLETE.search(text)
        end = len(text) if incomplete is None else incomplete.start()
        self._pending = text[end:]
        return self._filter(text[:end])

    def finish(self) -> str:
        """The rest, and the end of all styles."""
        text = self._pending + self._decoder.decode(b"", final=True)
        self._decoder.reset()
        self._pending = ""
        shown = self._filter(text)
        reset = _RESET if self._is_styled else ""
        self._is_styled = False
        return shown + reset

    def _filter(self, text: str) -> str:
        parts, end = [], 0
        for match in _SPECIAL.finditer(text):
            parts += [self._passed(text[end : match.start()]), self._special(match)]
            end = match.end()
        return "".join([*parts, self._passed(text[end:])])

    def _passed(self, text: str) -> str:
        self._lines.pass_text(text)
        return text

    def _special(self, match: re.Match[str]) -> str:
        sequence, style, move, number = match[0], match["style"], match["move"], match["number"]
        if style is not None:
            self._is_styled = style.strip("0") != ""
            return sequence
        if move in (_UP, _DOWN):
            moved = self._lines.move(int(number or 0) or 1, move)
            return f"\x1b[{moved}{move}" if moved else ""
        if move is not None and (move != _ERASE or number in ("", "0", "1", "2")):
            return sequence
        return "" if match["cursor"] else "".join(map(_caret, sequence))


def filter_text(text: str) -> str:
    """Filters a text that is a whole of its own."""
    if text.isprintable():
        return text
    whole = TerminalFilter()
    return whole.feed_text(text) + whole.finish()


def _caret(character: str) -> str:
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"^{chr(code ^ 0x40)}"
    if 0x80 <= code < 0xA0:
        return f"M-^{chr(code ^ 0xC0)}"
    if 0xDC80 <= code < 0xDCA0:  # a byte that is not UTF-8
        return _caret(chr(code - 0xDC00))
    if 0xD800 <= code < 0xE000:
        return "\ufffd"
    return f"<U+{code:04X}>" if code >= 0x2000 else character
