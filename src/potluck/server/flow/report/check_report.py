"""Checks of reports that need no lookup."""

from potluck.decide.lifecycle import is_consistent
from potluck.model.error import InvalidInput
from potluck.model.task import EndReason, Reporter
from potluck.server.flow.report import function_results
from potluck.wire.provider import Finished, ItemsDone, Report


def check_report(item: Report) -> None:
    """Raises InvalidInput for what no node can report."""
    match item:
        case ItemsDone():
            _check_items(item)
        case Finished():
            if item.reason.facts.reporter is Reporter.SERVER:
                raise InvalidInput(f"A node cannot report {item.reason}.")
            _check_consistent(item.reason, item.exit_code)
            function_results.check_value(item.value)


def _check_items(report: ItemsDone) -> None:
    for outcome in report.outcomes:
        if outcome.reason.facts.reporter is not Reporter.ITEM:
            raise InvalidInput(f"An item cannot end with {outcome.reason}.")
        _check_consistent(outcome.reason, outcome.exit_code)
    for run in report.returned:
        if run.end <= run.start:
            raise InvalidInput("A returned range is empty.")


def _check_consistent(reason: EndReason, exit_code: int | None) -> None:
    if not is_consistent(reason, exit_code):
        raise InvalidInput(f"{reason} contradicts exit status {exit_code}.")


def is_plain_end(report: Finished) -> bool:
    """Whether nothing but the state of its attempt can prevent that it is taken with others."""
    is_node_reason = report.reason.facts.reporter is not Reporter.SERVER
    is_plain = is_node_reason and is_consistent(report.reason, report.exit_code)
    # An uploaded blob may be missing, which must not fail the others.
    return is_plain and (report.value is None or report.value.blob is None)
