"""Public data beside the repository: used where it is, skipped with a reason where it is not."""

from pathlib import Path

import pytest


def add_option(parser: pytest.Parser) -> None:
    sibling = Path(__file__).parents[2] / "shared"
    parser.addoption(
        "--shared", default=str(sibling), help="the folder with public vectors and traces"
    )


def shared_folder(config: pytest.Config, name: str) -> Path:
    """The folder, or a skip that says which one is missing and how to name another."""
    folder = Path(config.getoption("--shared")) / name
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}; name the shared folder with --shared")
    return folder
