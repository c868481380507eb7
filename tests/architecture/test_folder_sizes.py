"""A folder's listing fits the screen and a module fits a sitting."""

from scripts.source_figures import large_folders, long_modules


def test_folders_are_small() -> None:
    large = large_folders()
    assert not large, f"group these modules into folders: {large}"


def test_modules_are_short() -> None:
    long = long_modules()
    assert not long, f"split these by what they do: {long}"
