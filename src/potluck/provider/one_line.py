"""Turns foreign text into one line that is safe for terminals and for the server."""

from potluck.model.bounded_types import replace_deceiving

# The server accepts 1,000 characters.
MOST_CHARACTERS = 900


def one_line(text: str, most_characters: int = MOST_CHARACTERS) -> str:
    """Removes line breaks and deceiving characters, and cuts the middle out of a long text."""
    line = " ".join(replace_deceiving(text, " ").split())
    if len(line) <= most_characters:
        return line
    half = (most_characters - 3) // 2
    return f"{line[:half]} … {line[-half:]}"
