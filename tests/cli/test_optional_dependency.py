"""Parts that are not installed: told in time, and nobody is sent to a stranger's package."""

import re
import sys
from pathlib import Path
from unittest import mock

import pytest

from potluck.local.optional_dependency import install_hint
from tests.architecture.repository_files import DOCS, SOURCE
from tests.cli.command_line import CommandLine, InProcess

ORIGIN = """{"url": "http://pool.example.org:8470/v1/package/potluck-0.1.0-py3-none-any.whl",
"archive_info": {"hashes": {"sha256": "ab12"}}}"""
# By its name alone, from whichever index there is.
FROM_AN_INDEX = re.compile(
    r"""install (?:-\S+ )*['"]?potluck(?:\[\w+\])?(?! @)(?=['"`]|$)""", re.MULTILINE
)


@pytest.fixture
def person(tmp_path: Path) -> CommandLine:
    return InProcess(tmp_path / "config")


@pytest.mark.parametrize("command", ["server", "up"])
def test_without_the_servers_part_nothing_begins(
    person: CommandLine, tmp_path: Path, command: str
) -> None:
    absent = dict.fromkeys(("litestar", "uvloop"))
    with mock.patch.dict(sys.modules, absent):
        result = person.run(command, "--data-dir", tmp_path / "data")
    assert result.status == 69
    assert "The server part of Potluck is not installed" in result.stderr
    assert "`make up`" in result.stderr
    assert not (tmp_path / "config").exists() and not (tmp_path / "data").exists()


def test_an_install_from_a_pool_shows_its_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "potluck-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: potluck\nVersion: 0.1.0\n")
    (installed / "direct_url.json").write_text(ORIGIN)
    monkeypatch.syspath_prepend(tmp_path)
    assert install_hint("server").endswith(
        'pip install "potluck[server] @ http://pool.example.org:8470/v1/package/'
        'potluck-0.1.0-py3-none-any.whl#sha256=ab12"'
    )
    (installed / "direct_url.json").write_text('{"url": "file:///srv/potluck"}')
    assert "clone" in install_hint("server")


def test_no_hint_names_an_index_without_potluck() -> None:
    pages = [*SOURCE.rglob("*.py"), *DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    sent = [str(page) for page in pages if FROM_AN_INDEX.search(page.read_text())]
    assert not sent, "say how it is had from a clone, or from a pool's wheel with its hash"
