"""What is held to the letter is otherwise the same as what it is made from."""

from typing import get_args

from potluck.wire.provider import Report, Reports
from potluck.wire.strict_types import StrictReports


def test_every_kind_of_report_is_taken() -> None:
    def tags(reports: type[Reports]) -> set[object]:
        report_types = get_args(get_args(reports.__annotations__["reports"])[0])[0]
        return {kind.__struct_config__.tag for kind in get_args(report_types)}

    assert (
        tags(StrictReports)
        == tags(Reports)
        == {kind.__struct_config__.tag for kind in get_args(Report)}
    )
