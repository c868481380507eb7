"""What an owner asks for from elsewhere, as far as a machine gives in to it."""

from potluck.model.terms import TermsChange
from potluck.provider.owner.wishes import within_walls


def test_no_server_takes_the_walls_down() -> None:
    wanted = TermsChange(price_micro_per_hour=1, sandbox="none")
    assert within_walls(wanted) == TermsChange(price_micro_per_hour=1)
    # What it was started with may be less than what the file says.
    assert within_walls(TermsChange(sandbox=None)) == TermsChange()
    for change in (TermsChange(sandbox="bwrap"), TermsChange()):
        assert within_walls(change) == change
