"""Building the dashboard: only when its sources have changed, and never half."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from potluck.server.dashboard import read_build
from tests.architecture.repository_files import ROOT
from tests.conftest import need
from tests.processes import await_true

BUILD = """
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
const text = readFileSync("page.txt", "utf8");
if (text.startsWith("fail")) { console.error("page.txt says so"); process.exit(1); }
if (text.startsWith("wait")) {
  writeFileSync("waiting", String(process.pid));
  setInterval(() => {}, 1000);
}
rmSync("dist", { recursive: true, force: true });
mkdirSync("dist/assets", { recursive: true });
const script = `document.title = ${JSON.stringify(text)};\\n`.repeat(50);
const name = `index-${createHash("sha256").update(script).digest("hex").slice(0, 8)}.js`;
writeFileSync(`dist/assets/${name}`, script);
writeFileSync("dist/index.html", `<script type="module" src="/assets/${name}"></script>`);
if (text.startsWith("stray")) writeFileSync("dist/robots.txt", "");
"""
PACKAGE = {"name": "a-dashboard", "private": True, "scripts": {"build": "node build.mjs"}}
LOCK = {"name": "a-dashboard", "lockfileVersion": 3, "requires": True}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    if shutil.which("npm") is None:
        need("npm")
    (tmp_path / "locks").mkdir()
    shutil.copy(ROOT / "locks" / "web.txt", tmp_path / "locks")
    write_sources(tmp_path)
    return tmp_path


def write_sources(checkout: Path) -> None:
    """Of a very small dashboard, which is built as the real one is."""
    web = checkout / "web"
    web.mkdir()
    (web / "build.mjs").write_text(BUILD)
    (web / "page.txt").write_text("one")
    write_packages(web, {})


def write_packages(web: Path, dependencies: dict[str, str]) -> None:
    (web / "package.json").write_text(json.dumps({**PACKAGE, "dependencies": dependencies}))
    packages = {"": {"name": "a-dashboard", "dependencies": dependencies}}
    for name, version in dependencies.items():
        packages[f"node_modules/{name}"] = {"version": version}
    (web / "package-lock.json").write_text(json.dumps({**LOCK, "packages": packages}))


def command(checkout: Path) -> list[str]:
    return [sys.executable, "-m", "scripts.web", "--json", "--checkout", str(checkout)]


def build(checkout: Path, **variables: str) -> list[dict[str, Any]]:
    """Its events; the last one says how it ended."""
    environment = {**os.environ, "npm_config_cache": str(checkout / "npm"), **variables}
    process = subprocess.run(
        command(checkout), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert not process.stderr, process.stderr
    events = [json.loads(line) for line in process.stdout.splitlines()]
    assert process.returncode == (3 if events[-1]["event"] == "unavailable" else 0)
    return events


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


def folder(checkout: Path) -> Path:
    return checkout / "src/potluck/server/pages/dashboard"


def script(checkout: Path) -> bytes:
    files = read_build(folder(checkout)).stored
    return next(data for name, data in files.items() if name.endswith(".js"))


def test_the_dashboard_is_built_once_and_again_when_a_source_changes(checkout: Path) -> None:
    assert names(build(checkout)) == ["building", "built"]
    assert b'"one"' in script(checkout)
    assert names(build(checkout)) == ["current"]
    assert names(build(checkout, PATH="/nonexistent")) == ["current"], "Node is not even looked for"
    (checkout / "web/page.txt").write_text("two")
    assert names(build(checkout)) == ["building", "built"]
    assert b'"two"' in script(checkout)
    assert not list(folder(checkout).parent.glob(".dashboard-*"))


def test_large_files_have_compressed_copies_that_hold_the_same(checkout: Path) -> None:
    build(checkout)
    stored = read_build(folder(checkout)).stored
    (name,) = [name for name in stored if name.endswith(".js")]
    unpack = (
        "const zlib = require('node:zlib'), fs = require('node:fs'), path = process.argv[1];"
        "const plain = fs.readFileSync(path);"
        "const unpacked = [zlib.brotliDecompressSync(fs.readFileSync(path + '.br')),"
        " zlib.gunzipSync(fs.readFileSync(path + '.gz'))];"
        "console.log(unpacked.every((each) => each.equals(plain)));"
    )
    process = subprocess.run(
        ["node", "-e", unpack, folder(checkout) / name], capture_output=True, text=True, timeout=30
    )
    assert process.stdout == "true\n", process.stderr
    assert {"index.html.br", "index.html.gz"}.isdisjoint(stored), "too small to be worth it"


@pytest.mark.parametrize(
    ("text", "sentence"), [("fail", "its build failed"), ("stray", "robots.txt: a build has")]
)
def test_a_build_that_fails_leaves_the_last_one(checkout: Path, text: str, sentence: str) -> None:
    build(checkout)
    (checkout / "web/page.txt").write_text(text)
    assert sentence in build(checkout)[-1]["detail"]
    assert b'"one"' in script(checkout)
    if text == "fail":
        assert "page.txt says so" in (checkout / ".cache/web.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_is_killed_leaves_the_last_one(checkout: Path, number: signal.Signals) -> None:
    build(checkout)
    (checkout / "web/page.txt").write_text("wait")
    waiting = checkout / "web/waiting"
    with subprocess.Popen(command(checkout), cwd=ROOT, stdout=subprocess.PIPE) as building:
        await_true(lambda: waiting.exists() and waiting.read_text(), "the build has begun")
        building.send_signal(number)
        building.wait(30)
    child = int(waiting.read_text())
    if number == signal.SIGTERM:
        await_true(lambda: has_ended(child), "what it had started has ended")
    else:
        os.kill(child, signal.SIGKILL)  # it never ends by itself, as a real build does
    assert b'"one"' in script(checkout)
    (checkout / "web/page.txt").write_text("three")
    waiting.unlink()
    assert names(build(checkout)) == ["building", "built"]


def has_ended(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_without_node_js_and_an_index_the_build_says_so(checkout: Path) -> None:
    nowhere = {
        "PATH": "/nonexistent",
        "UV_INDEX_URL": "http://127.0.0.1:9/simple",
        "UV_OFFLINE": "1",
    }
    (event,) = build(checkout, **nowhere, UV_CACHE_DIR=str(checkout / "uv"))
    assert event["event"] == "unavailable"
    assert "Install nodejs and npm" in event["detail"]


@pytest.fixture
def silent_registry() -> Iterator[str]:
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


def test_a_registry_that_does_not_answer_is_given_up(checkout: Path, silent_registry: str) -> None:
    write_packages(checkout / "web", {"nowhere-to-be-had": "1.0.0"})
    patience = {"npm_config_fetch_timeout": "300", "npm_config_fetch_retry_mintimeout": "10"}
    events = build(checkout, npm_config_registry=silent_registry, **patience)
    assert names(events) == ["building", "unavailable"]
    assert "its packages could not be installed" in events[-1]["detail"]


def test_without_sources_there_is_nothing_to_build(tmp_path: Path) -> None:
    assert names(build(tmp_path)) == ["unavailable"]
