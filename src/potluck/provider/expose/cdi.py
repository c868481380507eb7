"""Reads the vendors' device descriptions for container runtimes (CDI).

Only JSON is read; for other files the vendor modules here are used. Nodes, files and variables are
taken, hooks are not: they are for images with libraries of their own. Display nodes, sockets and
paths that belong to the sandbox are not exposed, and everything is read-only.
"""

import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec
import structlog
from msgspec import Struct

from potluck.provider.expose.exposed import Exposed, HostPaths, merge_exposed, open_nodes
from potluck.provider.sandbox.driver import Mount

log = structlog.get_logger()

# The later one wins.
_DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
_ALL = "all"
# The nodes that each card has one of.
_CARDS = re.compile(r"(/dev/nvidia|/dev/dri/renderD)[0-9]+")
_SCREENS = "/dev/dri/card"
_PLACES = ("/usr", "/opt", "/lib", "/lib32", "/lib64", "/etc/OpenCL", "/etc/vulkan", "/etc/glvnd")


class _Node(Struct, frozen=True, rename="camel"):
    path: str
    host_path: str = ""

    @property
    def mount(self) -> Mount:
        return Mount(Path(self.host_path or self.path), self.path)


class _CdiFile(Struct, frozen=True, rename="camel"):
    host_path: str
    container_path: str


class _Edits(Struct, frozen=True, rename="camel"):
    env: tuple[str, ...] = ()
    device_nodes: tuple[_Node, ...] = ()
    mounts: tuple[_CdiFile, ...] = ()


class _CdiDevice(Struct, frozen=True, rename="camel"):
    name: str
    container_edits: _Edits = _Edits()


class _Specification(Struct, frozen=True, rename="camel"):
    kind: str
    devices: tuple[_CdiDevice, ...] = ()
    container_edits: _Edits = _Edits()


def find_description(kind: str, uuid: str, node: str | None, machine: HostPaths) -> Exposed | None:
    """The description of the device with this uuid, or with this node."""
    by_uuid = by_node = None
    for specification in _specifications(machine):
        if specification.kind != kind:
            continue
        for device in specification.devices:
            if device.name == uuid:
                by_uuid = specification, device
            elif node is not None and _is_of(device, node):
                by_node = specification, device
    match = by_uuid or by_node
    return match and _exposed(match[0].container_edits, match[1].container_edits)


def _is_of(device: _CdiDevice, node: str) -> bool:
    """Not for entries of a MIG instance or of several cards, which name the card's node, too."""
    paths = {entry.path for entry in device.container_edits.device_nodes}
    kinds = [match[1] for match in map(_CARDS.fullmatch, paths) if match]
    is_several = len(kinds) > len(set(kinds))
    is_part = any(path.startswith("/dev/nvidia-caps/") for path in paths)
    return node in paths and not (is_several or is_part) and device.name != _ALL


def _exposed(*edits: _Edits) -> Exposed:
    return merge_exposed(
        merge_exposed(
            [
                open_nodes(
                    node.mount
                    for node in edit.device_nodes
                    if _is_below(node.path, "/dev") and not node.path.startswith(_SCREENS)
                ),
                Exposed(
                    dict(text.partition("=")[::2] for text in edit.env),
                    mounts=tuple(filter(None, map(_mount, edit.mounts))),
                ),
            ]
        )
        for edit in edits
    )


def _mount(file: _CdiFile) -> Mount | None:
    source, target = Path(file.host_path), Path(file.container_path)
    try:
        kind = source.stat().st_mode
    except OSError:
        return None
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        return None
    if not any(_is_below(file.container_path, place) for place in _PLACES):
        return None
    # All of /usr is visible already, and nothing can be added to it.
    is_in_usr = target.resolve().is_relative_to("/usr")
    if is_in_usr and (source == target or not target.exists()):
        return None
    return Mount(source, file.container_path)


def _is_below(path: str, place: str) -> bool:
    pure = PurePosixPath(path)
    return pure.is_relative_to(place) and path != place and ".." not in pure.parts


def _specifications(machine: HostPaths) -> Iterator[_Specification]:
    for directory in map(machine.at, _DIRECTORIES):
        for path in sorted(directory.glob("*.json")):
            try:
                yield msgspec.json.decode(path.read_bytes(), type=_Specification)
            except (OSError, msgspec.MsgspecError) as error:
                log.warning("expose.unreadable", path=str(path), error=str(error))
