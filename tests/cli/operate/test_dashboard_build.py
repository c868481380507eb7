"""`potluck up` in a checkout builds the dashboard, and nothing waits for that."""

import os
import shutil
from pathlib import Path

import pytest
import urllib3

from potluck.server.dashboard import BUILT_FOLDER
from tests.architecture.repository_files import ROOT, SOURCE
from tests.cli.command_line import CommandLine
from tests.cli.operate.platform_process import PlatformProcess
from tests.clusters import CLUSTERS
from tests.conftest import need
from tests.processes import await_true
from tests.scripts.test_web import write_sources


@pytest.fixture
def person(tmp_path: Path) -> CommandLine:
    """Works in a copy of the checkout, with a small dashboard in it."""
    if shutil.which("npm") is None:
        need("npm")
    checkout = tmp_path / "checkout"
    shutil.copytree(SOURCE, checkout / "src/potluck", ignore=_ignored)
    shutil.copytree(ROOT / "scripts", checkout / "scripts", ignore=_ignored)
    shutil.copytree(ROOT / "locks", checkout / "locks")
    write_sources(checkout)
    user = CommandLine(tmp_path / "config")
    user.variables["PYTHONPATH"] = str(checkout / "src")
    user.variables["POTLUCK_DASHBOARD_POLL_SECONDS"] = "0.1"
    del user.variables["POTLUCK_DASHBOARD_DIRECTORY"]
    CLUSTERS.put(tmp_path / "data/server")
    return user


def _ignored(folder: str, names: list[str]) -> set[str]:
    """A dashboard that was built in this checkout among them."""
    is_pages = Path(folder) == BUILT_FOLDER.parent
    return {"__pycache__", *(["dashboard"] if is_pages else [])}.intersection(names)


def front_page(url: str) -> bytes:
    return urllib3.request("GET", url, retries=False, timeout=30).data


def test_the_server_starts_with_the_join_page_and_switches_to_the_build(
    person: CommandLine, tmp_path: Path
) -> None:
    with PlatformProcess(person, tmp_path / "data", "--no-provider") as platform:
        url = platform.ready()["url"]
        assert platform.wait_for("dashboard")["state"] == "building"
        assert platform.wait_for("dashboard")["state"] == "built"
        await_true(lambda: b"/assets/index-" in front_page(url), "the server shows the build")
        assert platform.interrupt() == 0
    person.variables["PATH"] = without_node(tmp_path / "programs")
    with PlatformProcess(person, tmp_path / "data", "--no-provider") as platform:
        url = platform.ready()["url"]
        assert b"/assets/index-" in front_page(url), "from the start"
        assert platform.wait_for("dashboard")["state"] == "current"


def test_without_node_js_up_says_so_and_continues(person: CommandLine, tmp_path: Path) -> None:
    person.variables |= {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "uv")}
    person.variables["PATH"] = without_node(tmp_path / "programs")
    with PlatformProcess(person, tmp_path / "data", "--no-provider") as platform:
        url = platform.ready()["url"]
        event = platform.wait_for("dashboard")
        assert event["state"] == "unavailable"
        assert "Install nodejs and npm" in event["detail"] and "\n" not in event["detail"]
        assert b"Everyone brings a GPU" in front_page(url)


def without_node(programs: Path) -> str:
    """All that PATH has, apart from Node."""
    programs.mkdir()
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    for path in (path for folder in folders if folder.is_dir() for path in folder.iterdir()):
        link = programs / path.name
        if path.name not in ("node", "nodejs", "npm", "npx") and not link.is_symlink():
            link.symlink_to(path)
    return str(programs)
