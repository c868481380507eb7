"""A function fits the eye."""

import statistics

from tests.architecture.repository_files import functions, modules, named

MOST_LINES_OF_A_FUNCTION = 60


def test_functions_are_small() -> None:
    large = {key: lines for key, lines in _sizes().items() if lines > MOST_LINES_OF_A_FUNCTION}
    assert not large, f"give parts of these a name of their own: {large}"


def test_nine_functions_in_ten_are_under_thirty_lines() -> None:
    ninth_tenth = statistics.quantiles(_sizes().values(), n=10)[-1]
    assert ninth_tenth < 30


def _sizes() -> dict[tuple[str, str], int]:
    return {
        (named(path), function.name): (function.end_lineno or 0) - function.lineno + 1
        for path in modules()
        for function in functions(path)
    }
