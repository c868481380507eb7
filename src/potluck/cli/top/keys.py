"""What the keys of `potluck top` do, for `?`."""

from potluck.cli.terminal.screen import Tone
from potluck.cli.terminal.table import Cell

_KEYS = {
    "↑ ↓, j k": "the row above, the row below; Page Up, Page Down, Home and End go further",
    "Tab": "the other table",
    "Enter": "all about the chosen task or device",
    "l": "what the chosen task writes, as it grows",
    "e": "why the chosen task waits, and what would help",
    "c": "cancel the chosen task; it asks first",
    "s": "another order of the chosen table",
    "/": "only rows with these words; Escape shows all again",
    "r": "look now",
    "q, Ctrl-C": "leave; tasks go on",
}
HELP = [[Cell(f"{key:12}", Tone.STRONG), Cell(words)] for key, words in _KEYS.items()]
