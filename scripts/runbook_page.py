"""The runbook that the server itself shows: sections of `docs/alerts.md`, as a page for browsers.

The messages about alerts and the Prometheus rules link to it, and so reach those who have no clone.
"""

import itertools
import re
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

_SOURCE = Path(__file__).parent.parent / "docs" / "alerts.md"
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Potluck: what to do about an alert</title>
<link rel="icon" href="/pages/potluck.svg" type="image/svg+xml">
<link rel="stylesheet" href="/pages/device.css">
<link rel="stylesheet" href="/pages/front.css">
</head>
<body>
<main>
<header>
<img src="/pages/potluck.svg" alt="" width="40" height="40">
<p>Potluck</p>
</header>

<h1>What to do about an alert</h1>
<p>Made from docs/alerts.md of this version by <code>make docs</code>.</p>
{sections}</main>
</body>
</html>
"""


def runbook_page() -> str:
    _, _, sections = _SOURCE.read_text().partition("\n## The alerts\n")
    assert sections, f"{_SOURCE} has no section of this name"
    markdown = MarkdownIt("commonmark")
    tokens = markdown.parse(_without_links_to_pages(sections))
    for heading, text in itertools.pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", text.content.lower())
    return _PAGE.format(
        sections=markdown.renderer.render(_one_level_up(tokens), markdown.options, {})
    )


def _without_links_to_pages(text: str) -> str:
    """The server has no other page of the documentation."""
    return re.sub(r"\[([^]]+)\]\((\w+\.md[^)]*)\)", r"\1 (docs/\2)", text)


def _one_level_up(tokens: list[Token]) -> list[Token]:
    for token in tokens:
        if token.tag == "h3":
            token.tag = "h2"
    return tokens
