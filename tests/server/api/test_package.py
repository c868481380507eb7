"""The wheel that a server hands out: its own code, the same bytes each time, under one name."""

import base64
import csv
import hashlib
import io
import shutil
import subprocess
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

import potluck
from potluck.server.package_wheel import OwnWheel, assemble_wheel, build_own_wheel
from potluck.wire import routes
from potluck.wire.package import installers
from tests.processes import ServerProcess

FOLDER = Path(potluck.__file__).parent


@pytest.fixture(scope="module")
def wheel() -> OwnWheel:
    own_wheel = build_own_wheel({})
    assert own_wheel is not None
    return own_wheel


def names(wheel: OwnWheel) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(wheel.data)).namelist()


def test_anybody_may_have_the_wheel_under_its_name(server: ServerProcess, wheel: OwnWheel) -> None:
    stranger = server.client("")
    package = stranger.get(routes.PACKAGE.path)
    assert (package["name"], package["requires_python"]) == ("potluck", ">=3.11")
    response = stranger.call("GET", routes.PACKAGE_FILE.url(file=package["file"]))
    assert response.status == 200 and response.data == wheel.data
    assert hashlib.sha256(response.data).hexdigest() == package["sha256"]
    assert len(response.data) == package["size_bytes"] == int(response.headers["Content-Length"])
    assert "immutable" in response.headers["Cache-Control"]
    assert response.headers.getlist("Cache-Control") == [response.headers["Cache-Control"]]
    has_it = stranger.call("GET", response.url or "", If_None_Match=response.headers["ETag"])
    assert (has_it.status, has_it.data) == (304, b"")


@pytest.mark.parametrize(
    "file", ["potluck-0.0.1-py3-none-any.whl", "..%2Fwheel.py", "%00", "x" * 999]
)
def test_other_file_names_are_not_found(server: ServerProcess, wheel: OwnWheel, file: str) -> None:
    response = server.client("").call("GET", routes.PACKAGE_FILE.url(file=file))
    assert response.status == 404 and response.json()["code"] == "not_found"


def test_the_wheel_contains_exactly_the_code_of_the_package(wheel: OwnWheel) -> None:
    """Also of what is new, and not committed yet."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."]
    listing = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("this is no checkout")
    committed_files = {
        f"potluck/{name}" for name in listing.stdout.split() if (FOLDER / name).exists()
    }
    code = {name for name in names(wheel) if name.startswith("potluck/")}
    assert code == committed_files, (
        "server/package_wheel.py says which kinds of files the package has"
    )
    info_files = {name.split("/", 1)[1] for name in names(wheel) if ".dist-info/" in name}
    assert info_files == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def test_the_record_holds_for_every_file(wheel: OwnWheel) -> None:
    archive = zipfile.ZipFile(io.BytesIO(wheel.data))
    assert archive.testzip() is None
    info_directory = f"potluck-{wheel.package.version}.dist-info"
    rows = list(csv.reader(archive.read(f"{info_directory}/RECORD").decode().splitlines()))
    assert [row[0] for row in rows if not row[1]] == [f"{info_directory}/RECORD"]
    assert sorted(row[0] for row in rows) == sorted(archive.namelist())
    for name, digest, size in rows:
        data = archive.read(name)
        encoded_digest = (
            base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        )
        assert not digest or (digest, int(size)) == (f"sha256={encoded_digest}", len(data)), name
    metadata = archive.read(f"{info_directory}/METADATA").decode()
    assert f"\nVersion: {wheel.package.version}\n" in metadata
    assert "Requires-Dist: msgspec" in metadata


def test_the_same_code_gives_the_same_bytes_despite_stray_files(
    wheel: OwnWheel, tmp_path: Path
) -> None:
    copy = tmp_path / "potluck"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for stray in (
        ".env",
        ".x.py",
        "__pycache__/x.py",
        "notes.txt",
        ".hidden/x.py",
        "x.pyc",
        "cli/x.py~",
    ):
        (copy / stray).parent.mkdir(exist_ok=True)
        (copy / stray).write_text("secret = 1")
    (copy / "linked.py").symlink_to("/etc/hostname")
    assert assemble_wheel(distribution("potluck"), copy, {}) == wheel


def test_changed_code_has_another_version(wheel: OwnWheel, tmp_path: Path) -> None:
    """Installers leave a package alone that is there in the same version."""
    (tmp_path / "__init__.py").write_text("one = 1")
    first = assemble_wheel(distribution("potluck"), tmp_path, {}).package
    (tmp_path / "__init__.py").write_text("one = 2")
    other = assemble_wheel(distribution("potluck"), tmp_path, {}).package
    assert len({first.version, other.version, wheel.package.version}) == 3
    assert first.version.startswith(f"{potluck.__version__}+h")


def test_the_line_says_what_to_trust(wheel: OwnWheel) -> None:
    plain = installers("https://pool:8470", wheel.package, has_own_authority=False)
    assert plain.pip == (
        f'pip install "potluck @ https://pool:8470/v1/package/{wheel.package.file}'
        f'#sha256={wheel.package.sha256}"'
    )
    private = installers("https://pool:8470", wheel.package, has_own_authority=True)
    assert private.pip.startswith("pip install --trusted-host pool:8470 ")
    assert all(wheel.package.sha256 in line for line in (private.pip, private.uv, private.pipx))


def test_the_front_page_shows_how_to_join(server: ServerProcess, wheel: OwnWheel) -> None:
    page = server.client("").call("GET", "/").data.decode()
    line = installers(server.url, wheel.package, has_own_authority=False).pip
    assert line.replace('"', "&quot;") in page
    assert f"potluck run --server {server.url} --template hello" in page
    assert "$" not in page, "every gap is filled in"
