"""The file into which a simulation draws its chart."""

from pathlib import Path

from potluck.model.error import InvalidInput


def check(path: Path | None) -> None:
    """Before the work is done: what is drawn is SVG, whatever the file is called."""
    if path is not None and path.suffix.lower() != ".svg":
        raise InvalidInput(
            f"--plot {path.name}: charts are drawn as SVG.", "Name a file that ends in .svg."
        )


def write(path: Path, chart: str) -> None:
    try:
        path.write_text(chart, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"{path} can not be written: {error.strerror}.", "Name another file."
        ) from error
