"""The pages that need no build have the colours of the dashboard."""

import re
from importlib.resources import files
from pathlib import Path

STYLES = Path(__file__).parents[3] / "web" / "src" / "styles.css"
_COLOUR = re.compile(r"--([a-z-]+): (#[0-9a-f]{6});")
_PAIR = re.compile(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
SHARED = {"ground", "sheet", "sunken", "ink", "soft", "line", "strong-line", "accent"}


def test_the_api_page_has_the_palette_of_the_dashboard() -> None:
    light, _, after_light = STYLES.read_text().partition('[data-theme="dark"] {')
    dark = after_light.partition("}")[0]
    dashboard_colours = dict(_COLOUR.findall(light)), dict(_COLOUR.findall(dark))
    docs = files("potluck.server.pages").joinpath("docs.css").read_text("utf-8")
    api_colours = {name: pair for name, *pair in _PAIR.findall(docs)}
    assert api_colours.keys() >= SHARED
    for name, pair in api_colours.items():
        if name in dashboard_colours[0]:
            assert pair == [dashboard_colours[0][name], dashboard_colours[1][name]], name
