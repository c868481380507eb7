"""Archives that somebody made with bad intent, or badly, byte by byte.

`HOSTILE` are never unpacked. `ODD` are, and to nothing but what their row says.
"""

import gzip
import io
import tarfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

END = bytes(1024)
GIB = 2**30
MORE_THAN_MAY_BE = 60_000
_LAST = 9_999_999

Archive = bytes | Callable[[BinaryIO], None]


def header(
    name: str | bytes,
    size: int | bytes = 0,
    kind: bytes = b"0",
    *,
    mode: int = 0o644,
    modified: int | bytes = 0,
    link: str = "",
    prefix: str = "",
    device: tuple[int, int] = (0, 0),
) -> bytes:
    """One block as POSIX describes it; numbers as bytes go in as they are."""
    fields = [
        _name(name).ljust(100, b"\0"),
        b"%07o\0" % mode,
        b"%07o\0" % 0,
        b"%07o\0" % 0,
        size if isinstance(size, bytes) else b"%011o\0" % size,
        modified if isinstance(modified, bytes) else b"%011o\0" % modified,
        b" " * 8,
        kind,
        link.encode().ljust(100, b"\0"),
        b"ustar\x0000",
        b"root".ljust(32, b"\0"),
        b"root".ljust(32, b"\0"),
        b"%07o\0" % device[0],
        b"%07o\0" % device[1],
        prefix.encode().ljust(155, b"\0"),
    ]
    block = b"".join(fields).ljust(512, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def file(name: str | bytes, content: bytes = b"content", **fields: object) -> bytes:
    return header(name, len(content), **fields) + _padded(content)  # type: ignore[arg-type]


def directory(name: str) -> bytes:
    return header(name, kind=b"5", mode=0o755)


def extended(records: dict[str, str | bytes], kind: bytes = b"x") -> bytes:
    content = b"".join(_record(key.encode(), _name(value)) for key, value in records.items())
    return header("extended", len(content), kind) + _padded(content)


def base_256(number: int, width: int = 12) -> bytes:
    """As GNU writes what octal digits have no room for."""
    sign = b"\x80" if number >= 0 else b"\xff"
    return sign + number.to_bytes(width - 1, "big", signed=True)


def _name(name: str | bytes) -> bytes:
    return name if isinstance(name, bytes) else name.encode()


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


def _record(key: bytes, value: bytes) -> bytes:
    record_end = b" %b=%b\n" % (key, value)
    size = len(record_end)
    while len(b"%d" % size) + len(record_end) != size:
        size = len(b"%d" % size) + len(record_end)
    return b"%d" % size + record_end


def _many(kind: bytes, folder: str = "", times: int = 1) -> Callable[[BinaryIO], None]:
    """Empty entries, with names of their own, so many times over.

    The names have the same sum, so that the check of a header holds whichever is in it.
    """
    template = header(f"{folder}{0:07d}{_LAST:07d}", kind=kind)
    before, after = template[: len(folder)], template[len(folder) + 14 :]

    def write(target: BinaryIO) -> None:
        names = (b"%07d%07d" % (number, _LAST - number) for number in range(MORE_THAN_MAY_BE))
        block = b"".join(before + name + after for name in names)
        target.writelines(block for _ in range(times))

    return write


def _extended_without_end(target: BinaryIO) -> None:
    """Many small records, all for one file that never comes."""
    template = extended({f"kNNNN{number:05d}": b"" for number in range(3_000)})
    target.writelines(template.replace(b"kNNNN", b"k%04d" % number) for number in range(400))


def _tiny_records(target: BinaryIO) -> None:
    """Extended headers that are taken apart at length and say nothing."""
    content = b"6 a=b\n" * (65_536 // 6)
    records = (header("extended", len(content), b"x") + _padded(content)) * 4
    target.writelines(records + file(f"{number}") for number in range(100))


def _hole(target: BinaryIO) -> None:
    """A file of ten gigabytes that takes no room until it is unpacked."""
    target.write(header("large", base_256(10 * GIB)))
    target.seek(10 * GIB, io.SEEK_CUR)
    target.write(END)


def _by_tarfile(entry: tarfile.TarInfo, content: bytes = b"") -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()


_LONG = "n" * 300
_ZEROS = bytes(4 * 2**20)

HOSTILE: dict[str, Archive] = {
    # Ways out.
    "parent": file("../escaped"),
    "parent in the middle": file("a/../../escaped"),
    "parent at the end": directory("a/.."),
    "parent in a prefix": file("escaped", prefix=".."),
    "parent in an extended header": extended({"path": "../escaped"}) + file("fine"),
    "parent in a long name": file("x", b"../escaped\0", kind=b"L") + file("fine"),
    "absolute": file("/tmp/potluck-escaped"),
    "absolute in an extended header": extended({"path": "/tmp/potluck-escaped"}) + file("fine"),
    "absolute, twice the slash": file("//tmp/potluck-escaped"),
    "dots and a slash": file(".//../escaped"),
    "another system's slash": file("..\\escaped"),
    "another system's drive": file("C:\\escaped"),
    # Links.
    "symbolic link": header("link", kind=b"2", link="/etc/passwd"),
    "link, then through it": header("out", kind=b"2", link="..") + file("out/escaped"),
    "link to itself": header("link", kind=b"2", link="link"),
    "hard link": header("link", kind=b"1", link="/etc/passwd"),
    "hard link to what is there": file("first") + header("link", kind=b"1", link="first"),
    "link by a long name": file("x", b"/etc/passwd\0", kind=b"K") + header("link", kind=b"2"),
    # What is no file.
    "character device": header("null", kind=b"3", device=(1, 3)),
    "block device": header("disk", kind=b"4", device=(254, 0)),
    "pipe": header("pipe", kind=b"6"),
    "contiguous file": file("x", kind=b"7"),
    "volume": header("volume", kind=b"V"),
    "unknown kind": file("x", kind=b"Z"),
    "old sparse file": file("sparse", kind=b"S"),
    "new sparse file": extended({"GNU.sparse.major": "1", "GNU.sparse.realsize": str(GIB)})
    + file("sparse"),
    # Too much.
    "bomb in gzip": gzip.compress(file("zeros", _ZEROS), 9),
    "larger than the disk": _hole,
    "size of a petabyte": header("large", base_256(2**50)),
    "size that overflows": header("large", base_256(2**63 - 512)),
    "negative size": header("negative", base_256(-512)),
    "negative size in an extended header": extended({"size": "-512"}) + file("fine"),
    "size of a thousand digits": extended({"size": "9" * 1000}) + file("fine"),
    "size that is no number": header("x", b"eleven bytes"),
    "a million files": _many(b"0", times=17),
    "many directories": _many(b"5"),
    "many files in one directory": _many(b"0", "folder/"),
    "many extended headers": _many(b"x"),
    "extended headers without end": _extended_without_end,
    "extended headers of tiny records": _tiny_records,
    "extended header of a gigabyte": header("x", GIB, b"x"),
    "deep and many": _many(b"0", "a/" * 40),
    "too deep": extended({"path": "d/" * 400 + "x"}) + file("fine"),
    "too long a name": extended({"path": _LONG}) + file("fine"),
    "too long a path": extended({"path": "/".join(["n" * 200] * 20)}) + file("fine"),
    # Names that are one on somebody's machine.
    "case": file("Read.me") + file("read.me"),
    "case of a directory": file("Folder/a") + file("folder/b"),
    "composed and decomposed": file("caf\u00e9") + file("cafe\u0301"),
    "compatible letters": file("ﬁle") + file("FILE"),
    "sharp s": file("stra\u00dfe") + file("STRASSE"),
    "kelvin": file("\u212a") + file("k"),
    "dotless": file("\u0130") + file("i\u0307"),
    "twice": file("same") + file("same", b"other"),
    "twice, by dots": file("same") + file("./same"),
    "file, then below it": file("a") + file("a/b"),
    "below it, then a file": file("a/b") + file("a"),
    "directory, then a file": directory("a") + file("a"),
    # Names that are none.
    "no UTF-8": file(b"\xff\xfe"),
    "surrogate": file(b"\xed\xa0\x80"),
    "NUL": extended({"path": "fine\0/../../escaped"}) + file("fine"),
    "line break": file("a\nb"),
    "escape": file("\x1b[2J"),
    "empty part": file("a//b"),
    # Damage.
    "no archive at all": b"#!/bin/sh\n" * 200,
    "cut off in a header": file("a")[:300],
    "cut off in a file": header("a", 4096) + bytes(512),
    "cut off in an extended header": extended({"path": "x" * 600})[:700],
    "wrong sum": file("a").replace(b"ustar", b"uster"),
    "garbage after a file": file("a") + b"\x01" * 512,
    "extended header without a length": header("x", 7, b"x") + _padded(b"path=a\n") + file("a"),
    "extended header too short": header("x", 9, b"x") + _padded(b"99 path=a") + file("a"),
    "extended header beyond its end": header("x", 10, b"x") + _padded(b"99 path=a\n") + file("a"),
    "extended header of no length": header("x", 9, b"x") + _padded(b"0 path=a\n") + file("a"),
}

ODD: dict[str, tuple[Archive, dict[str, int]]] = {
    # What is unpacked: path, and the mode that it has.
    "nothing": (b"", {}),
    "zeros": (END, {}),
    "the directory itself": (directory("./") + file("./a"), {"a": 0o644}),
    "programs": (file("run", mode=0o4755), {"run": 0o755}),
    "all bits": (file("all", mode=0o7777), {"all": 0o755}),
    "garbage after the end": (file("a") + END + b"\x01" * 4096, {"a": 0o644}),
    "an entry after the end": (file("a") + END + file("../escaped"), {"a": 0o644}),
    "far future": (file("a", modified=base_256(2**61)), {"a": 0o644}),
    "long before": (file("a", modified=0), {"a": 0o644}),
    "directory twice": (directory("d") + file("d/a") + directory("d"), {"d": 0o755, "d/a": 0o644}),
    "directory that says a size": (
        header("d", 512, b"5") + file("d/a"),
        {"d": 0o755, "d/a": 0o644},
    ),
    "for all": (extended({"path": "../escaped"}, b"g") + file("a"), {"a": 0o644}),
    "not ASCII": (
        _by_tarfile(tarfile.TarInfo("Bücher/größe")),
        {"Bücher": 0o755, "Bücher/größe": 0o644},
    ),
    "200 bytes of a name": (_by_tarfile(tarfile.TarInfo("n" * 200)), {"n" * 200: 0o644}),
    "as old as tar": (file("a", kind=b"\0"), {"a": 0o644}),
}


def write(archive: Archive, target: BinaryIO) -> None:
    if isinstance(archive, bytes):
        target.write(archive)
    else:
        archive(target)


def all_of_them() -> Iterator[tuple[str, Archive]]:
    yield from HOSTILE.items()
    yield from ((name, archive) for name, (archive, _) in ODD.items())
