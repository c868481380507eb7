"""Packages of the tests' own environment as wheels again, for an index that needs no network."""

import io
import zipfile
from importlib.metadata import Distribution, distribution

from tests.provider.dependencies.package_index import LoopbackIndex

# What an installer adds; the rest is as it came.
_ADDED = ("INSTALLER", "REQUESTED", "direct_url.json", "RECORD")


def offer(index: LoopbackIndex, *names: str) -> None:
    for name in names:
        index.add(name, *repacked(distribution(name)))


def repacked(installed: Distribution) -> tuple[str, bytes]:
    """The wheel's file name and bytes; not compressed, since nobody keeps it."""
    files = [
        file
        for file in installed.files or ()
        if ".." not in file.parts and "__pycache__" not in file.parts and file.name not in _ADDED
    ]
    (wheel_file,) = [file for file in files if file.match("*.dist-info/WHEEL")]
    tags = [line for line in wheel_file.read_text().splitlines() if line.startswith("Tag: ")]
    info = wheel_file.parent.name
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in files:
            archive.write(str(file.locate()), str(file))
        record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", record)
    stem = info.removesuffix(".dist-info")
    return f"{stem}-{tags[0].removeprefix('Tag: ')}.whl", packed.getvalue()
