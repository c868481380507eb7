"""Text from elsewhere as one line that every terminal, and the server, takes."""

# The server takes a thousand characters.
MOST_CHARACTERS = 900


def one_line(text: str, most_characters: int = MOST_CHARACTERS) -> str:
    """Without line ends and control characters, cut in the middle if it is too long."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    if len(line) <= most_characters:
        return line
    half = (most_characters - 3) // 2
    return f"{line[:half]} … {line[-half:]}"
