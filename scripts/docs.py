"""Writes the parts of the documentation that are made from the code: `make docs`.

A generated part stands in its page between two comments that name it. To add one, write a function
that returns it and name its page in `PARTS`; a test says that the pages are current.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from potluck.model.lease import AttemptState
from potluck.model.task import END_REASONS, EndFacts

ROOT = Path(__file__).parent.parent


def end_reasons() -> str:
    head = ("reason", "reported by", "attempt becomes", "counts as", "held against the node")
    rows = [
        (
            *(f"`{reason}`", facts.reporter.value, f"`{facts.attempt_state}`", _counts_as(facts)),
            *(facts.node_fault.value, facts.next_try.value, _sentence(facts.meaning)),
        )
        for reason, facts in END_REASONS.items()
    ]
    return table((*head, "next try", "meaning"), rows)


def _counts_as(facts: EndFacts) -> str:
    counts = {AttemptState.FAILED: "failure", AttemptState.LOST: "loss"}
    return counts.get(facts.attempt_state, "–") if facts.is_counted else "–"


def _sentence(clause: str) -> str:
    return f"{clause[0].upper()}{clause[1:]}."


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace("| --- ", "|---") + "\n"


# Which page has it, by the name between its markers.
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "end reasons": ("docs/lifecycle.md", end_reasons),
}


def current(page: str, name: str, part: Callable[[], str]) -> str:
    """The text of a page with this part of it as the code has it now."""
    begin, end = f"<!-- generated: {name} (make docs) -->\n", "<!-- end of generated -->"
    before, behind = (ROOT / page).read_text().split(begin)
    return f"{before}{begin}\n{part()}\n{end}{behind.split(end, 1)[1]}"


def main() -> None:
    for name, (page, part) in PARTS.items():
        (ROOT / page).write_text(current(page, name, part))


if __name__ == "__main__":
    main()
