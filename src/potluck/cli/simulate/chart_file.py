"""The chart file of a simulation."""

from pathlib import Path

from potluck.model.error import InvalidInput


def check_chart_path(path: Path | None) -> None:
    """Checks the file name before the simulation runs; charts are always SVG."""
    if path is not None and path.suffix.lower() != ".svg":
        raise InvalidInput(
            f"--plot {path.name}: charts are SVG files.", "Use a file name that ends in .svg."
        )


def write_chart(path: Path, chart: str) -> None:
    try:
        path.write_text(chart, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}.", "Use another file name."
        ) from error
