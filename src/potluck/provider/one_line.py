"""Turns foreign text into one line that is safe for terminals and for the server."""

# The server accepts 1,000 characters.
MOST_CHARACTERS = 900


def one_line(text: str, most_characters: int = MOST_CHARACTERS) -> str:
    """Removes line breaks and control characters, and cuts the middle out of a long text."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    if len(line) <= most_characters:
        return line
    half = (most_characters - 3) // 2
    return f"{line[:half]} … {line[-half:]}"
