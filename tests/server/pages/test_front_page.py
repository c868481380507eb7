"""The front page in a real browser: how to join, in lines that can be copied."""

from playwright.sync_api import Page, expect

from tests.processes import ServerProcess


def test_the_front_page_shows_how_to_join(page: Page, server: ServerProcess) -> None:
    page.goto(server.url)
    expect(page.get_by_role("heading", name="Join")).to_be_visible()
    line = str(server.first["join"])
    expect(page.get_by_text(line, exact=True)).to_be_visible()
    for hidden in (
        "It accepts no new accounts",
        "New accounts need an invite",
        "that pip does not trust",
    ):
        expect(page.get_by_text(hidden)).to_be_hidden()
    page.get_by_text("With uv or pipx").click()
    expect(page.get_by_text("uv pip install")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.get_by_text(line, exact=True).click()
    assert page.evaluate("String(getSelection())").strip() == line, "one click takes all of it"
