"""The dashboard at `/`: how its files are cached and compressed, and which paths are its own."""

import asyncio
import gzip
import io
import shutil
import zipfile
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from potluck.server.dashboard import MANIFEST, Dashboard, DashboardUnreadable, is_name, read_build
from potluck.server.loops.dashboard import DashboardLoop
from potluck.server.package_wheel import OfferedWheels
from potluck.server.settings import read_settings
from potluck.wire import routes
from scripts.web_publish import publish
from tests.processes import Api, ServerProcess, await_true
from tests.server.dashboard_builds import built_files, publish_build, script_path

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
JOIN = b"Everyone brings a GPU"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the build is; the first test finds none."""
    return tmp_path_factory.mktemp("pages") / "dashboard"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[ServerProcess]:
    with ServerProcess(
        tmp_path_factory.mktemp("server"),
        POTLUCK_DASHBOARD_DIRECTORY=str(folder),
        POTLUCK_DASHBOARD_POLL_SECONDS="0.05",
    ) as running:
        yield running


@pytest.fixture
def browser(server: ServerProcess) -> Api:
    return server.client("")


@pytest.fixture
def built(browser: Api, folder: Path) -> str:
    """The mark of a build that the server serves."""
    switch(browser, folder, "first")
    return "first"


def switch(browser: Api, folder: Path, mark: str) -> None:
    if not folder.exists() or read_build(folder).source != mark:
        publish_build(folder, mark)
    await_true(lambda: title(browser) == mark, f"the server shows {mark}")


def title(browser: Api) -> str:
    page = browser.call("GET", "/").data.decode()
    return page.split("<title>")[1].split("</title>")[0]


def test_the_join_page_makes_way_for_the_first_build_without_a_restart(
    browser: Api, folder: Path
) -> None:
    assert JOIN in browser.call("GET", "/").data
    assert browser.call("GET", "/tasks", Accept=HTML).status == 404, "nothing could show it"
    before = browser.get(routes.PACKAGE.path)["file"]
    switch(browser, folder, "first")
    assert JOIN not in browser.call("GET", "/").data
    assert JOIN in browser.call("GET", "/pages/join").data

    def has_another_wheel() -> bool:
        return bool(browser.get(routes.PACKAGE.path)["file"] != before)

    await_true(has_another_wheel, "a wheel with the dashboard is offered")
    wheel = browser.call("GET", routes.PACKAGE_FILE.url(file=browser.get("/v1/package")["file"]))
    names = set(zipfile.ZipFile(io.BytesIO(wheel.data)).namelist())
    expected = {*built_files("first"), MANIFEST}
    assert {f"potluck/server/pages/dashboard/{name}" for name in expected} <= names
    earlier = browser.call("GET", routes.PACKAGE_FILE.url(file=before))
    assert earlier.status == 200, "the join command that was shown before works"
    now = browser.get(routes.PACKAGE.path)["file"].encode()
    assert now in browser.call("GET", "/pages/join").data


async def test_the_join_command_of_the_first_start_works_after_a_restart(tmp_path: Path) -> None:
    """It was shown before there was a dashboard; the wheel has another name with one."""
    settings = read_settings(
        {"data_directory": str(tmp_path), "dashboard_directory": str(tmp_path / "built")}, {}
    )
    first = OfferedWheels()
    await DashboardLoop(settings, Dashboard(), first).run_once()
    assert first.current is not None
    publish_build(tmp_path / "built", "first")
    again, dashboard = OfferedWheels(), Dashboard()
    restarted = DashboardLoop(settings, dashboard, again)
    await restarted.run_once()
    assert again.current is not None
    assert again.current.package.file != first.current.package.file
    running = asyncio.create_task(restarted.run())
    async with asyncio.timeout(30):
        while (earlier := again.find(first.current.package.file)) is None:
            await asyncio.sleep(0.01)
    running.cancel()
    assert earlier == first.current, "the hash in the command still holds"


def test_pages_of_the_dashboard_are_revalidated_and_its_assets_are_not(
    browser: Api, built: str
) -> None:
    page = browser.call("GET", "/")
    assert (page.headers["Cache-Control"], page.headers["Content-Type"]) == (
        "no-cache",
        "text/html; charset=utf-8",
    )
    cached = browser.call("GET", "/", If_None_Match=page.headers["ETag"])
    assert (cached.status, cached.data) == (304, b"")
    script = browser.call("GET", script_path(built))
    assert script.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert script.headers["Content-Type"].startswith("text/javascript")
    cached = browser.call("GET", script_path(built), If_None_Match=script.headers["ETag"])
    assert (cached.status, cached.data) == (304, b"")


CODINGS = {
    "gzip, deflate, br, zstd": "br",
    "gzip": "gzip",
    "GZIP;q=0.5": "gzip",
    "br;q=0, gzip": "gzip",
    "br; q=0.000, gzip; q=0": None,
    "*": "br",
    "*;q=0": None,
    "identity": None,
    "": None,
    "deflate, zstd": None,
    ";;;,,,=": None,
}


@pytest.mark.parametrize("accepted", CODINGS)
def test_a_file_comes_as_the_client_can_read_it(
    server: ServerProcess, built: str, accepted: str
) -> None:
    status, headers, body = fetch(server, script_path(built), accept_encoding=accepted)
    assert (status, headers.get("content-encoding")) == (200, CODINGS[accepted])
    name = script_path(built)[1:]
    suffix = {"br": ".br", "gzip": ".gz", None: ""}[CODINGS[accepted]]
    assert body == built_files(built)[name + suffix]
    assert headers["vary"] == "Accept-Encoding"
    if suffix == ".gz":
        assert gzip.decompress(body) == built_files(built)[name]


def test_copies_in_different_codings_have_different_tags(server: ServerProcess, built: str) -> None:
    tags = [
        fetch(server, script_path(built), accept_encoding=coding)[1]["etag"]
        for coding in ("br", "gzip", "identity")
    ]
    assert len(set(tags)) == 3


def fetch(server: ServerProcess, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Sends the path as it is, and does not unpack what comes."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.putrequest("GET", path, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, body


NAVIGATIONS = {
    "a page": ("/tasks", {"Accept": HTML}),
    "a page below it": ("/tasks/task_01jd0000000000000000000000", {"Accept": HTML}),
    "with a query": ("/tasks?state=queued&name=x", {"Accept": HTML}),
    "as a browser says": ("/market", {"Sec_Fetch_Mode": "navigate", "Accept": "*/*"}),
}


@pytest.mark.parametrize("case", NAVIGATIONS)
def test_a_page_that_only_the_dashboard_knows_is_the_dashboard(
    browser: Api, built: str, case: str
) -> None:
    path, headers = NAVIGATIONS[case]
    page = browser.call("GET", path, None, **headers)
    assert (page.status, page.data) == (200, built_files(built)["index.html"])
    assert page.headers["Cache-Control"] == "no-cache"
    assert "Sec-Fetch-Mode" in page.headers["Vary"]


ERRORS: dict[str, tuple[str, str, dict[str, str], int]] = {
    "a program": ("GET", "/tasks", {}, 404),
    "a script of a page": ("GET", "/tasks", {"Accept": HTML, "Sec_Fetch_Mode": "cors"}, 404),
    "a picture": ("GET", "/favicon.ico", {"Sec_Fetch_Mode": "no-cors"}, 404),
    "an operation that is none": ("GET", "/v1/nowhere", {"Accept": HTML}, 404),
    "an operation": ("GET", "/v1/me", {"Accept": HTML}, 401),
    "an object": ("GET", "/v1/package/x.whl", {"Accept": HTML}, 404),
    "an asset": ("GET", "/assets/none-12345678.js", {"Accept": HTML}, 404),
    "a file of a page": ("GET", "/pages/none.js", {"Accept": HTML}, 404),
    "below a probe": ("GET", "/healthz/x", {"Accept": HTML}, 404),
    "another method": ("POST", "/tasks", {"Accept": HTML}, 404),
    "another method of the front page": ("POST", "/", {"Accept": HTML}, 405),
}


@pytest.mark.parametrize("case", ERRORS)
def test_other_requests_are_not_answered_with_a_page(browser: Api, built: str, case: str) -> None:
    method, path, headers, status = ERRORS[case]
    response = browser.call(method, path, None, **headers)
    assert (response.status, response.headers["Content-Type"]) == (
        status,
        "application/problem+json",
    )


@pytest.mark.parametrize("path", ["/docs", "/pages/device.js"])
def test_pages_of_the_server_keep_their_addresses(browser: Api, built: str, path: str) -> None:
    response = browser.call("GET", path, Accept=HTML, Sec_Fetch_Mode="navigate")
    assert response.status == 200 and response.data != built_files(built)["index.html"]


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../index.html",
        "/assets/..%2Findex.html",
        "/assets/%2e%2e/%2e%2e/front_page.py",
        "/assets/..%2f..%2fdashboard.py",
        "/assets/%2Fetc%2Fpasswd",
        "/assets//etc/passwd",
        "/assets/..%5Cindex.html",
        "/assets/%00",
        "/assets/manifest.json",
        "/assets/" + "x" * 4_000,
        "/manifest.json",
        "/index.html.br",
        "/pages/dashboard%2Findex.html",
        "/pages/..%2Fdashboard.py",
    ],
)
def test_no_path_leads_out_of_the_build(server: ServerProcess, built: str, path: str) -> None:
    status, headers, _ = fetch(server, path)
    assert (status, headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize("suffix", [".br", ".gz"])
def test_a_copy_is_no_file_of_its_own(server: ServerProcess, built: str, suffix: str) -> None:
    assert fetch(server, script_path(built) + suffix)[0] == 404


def test_a_page_may_do_nothing_that_the_policy_does_not_list(browser: Api, built: str) -> None:
    for path in ("/", "/tasks", "/docs", "/device", "/pages/join"):
        headers = browser.call("GET", path, Accept=HTML).headers
        directives = dict(
            directive.strip().split(" ", 1)
            for directive in headers["Content-Security-Policy"].split(";")
        )
        assert directives == {
            "default-src": "'self'",
            "script-src": "'self'",
            "style-src": "'self'",
            "connect-src": "'self'",
            "img-src": "'self' blob: data:",
            "font-src": "'self'",
            "object-src": "'none'",
            "base-uri": "'none'",
            "form-action": "'self'",
            "frame-ancestors": "'none'",
        }
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"


def test_the_next_build_replaces_it_and_open_pages_still_find_their_files(
    browser: Api, built: str, folder: Path
) -> None:
    switch(browser, folder, "second")
    for mark in (built, "second"):
        assert browser.call("GET", script_path(mark)).status == 200, mark
    switch(browser, folder, "third")
    assert browser.call("GET", script_path(built)).status == 404, "two builds are kept"
    switch(browser, folder, built)


def test_a_build_that_is_gone_or_half_written_changes_nothing(
    browser: Api, built: str, folder: Path
) -> None:
    (folder / "index.html").write_bytes(b"half")
    (folder / MANIFEST).touch()
    assert title(browser) == built
    shutil.rmtree(folder)
    assert title(browser) == built
    switch(browser, folder, built)


BROKEN: dict[str, Any] = {
    "no manifest": lambda folder: (folder / MANIFEST).unlink(),
    "a manifest that is none": lambda folder: (folder / MANIFEST).write_bytes(b"\xff{"),
    "a manifest of something else": lambda folder: (folder / MANIFEST).write_text("[1]"),
    "a changed file": lambda folder: (folder / "index.html").write_text("other"),
    "a missing file": lambda folder: shutil.rmtree(folder / "assets"),
    "a folder as a file": lambda folder: replace_by_folder(folder / "index.html"),
    "a name that leads out": lambda folder: rename_in_manifest(folder, "../index.html"),
    "a name from the root": lambda folder: rename_in_manifest(folder, "/etc/passwd"),
    "no index": lambda folder: rename_in_manifest(folder, "assets/other-12345678.html"),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_build_is_not_read(tmp_path: Path, damage: str) -> None:
    publish_build(tmp_path / "dashboard", "x")
    assert read_build(tmp_path / "dashboard").source == "x"
    BROKEN[damage](tmp_path / "dashboard")
    with pytest.raises(DashboardUnreadable):
        read_build(tmp_path / "dashboard")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def rename_in_manifest(folder: Path, name: str) -> None:
    manifest = folder / MANIFEST
    manifest.write_text(manifest.read_text().replace('"index.html"', f'"{name}"'))


@pytest.mark.parametrize(
    "name",
    ["robots.txt", "assets/plain.js", "assets/a/b-12345678.js", "assets/x-12345678.exe", ".."],
)
def test_a_build_with_other_files_is_not_published(tmp_path: Path, name: str) -> None:
    assert not is_name(name)
    with pytest.raises(ValueError, match=name):
        publish({**built_files("x"), name: b""}, "x", tmp_path / "dashboard")
    assert not (tmp_path / "dashboard").exists()


def test_without_a_build_there_is_no_asset() -> None:
    assert Dashboard().asset("index-12345678.js") is None
