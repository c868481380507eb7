"""A class name exists once in the package, so that it says which class is meant."""

from scripts.source_figures import repeated_class_names


def test_class_names_are_unique() -> None:
    repeated = repeated_class_names()
    assert not repeated, f"rename all but one of each: {repeated}"
