"""Who a run is on this machine: never root, never the owner of anything.

An ordinary user gets a user namespace, in which nothing but that user exists. Root can not: what is
mounted may lie in directories that only root may enter. So bwrap runs as root, and the first step
inside drops to a random high uid, with no capability, before the command starts; and with no group
but those that open its own device nodes.
"""

import os
import secrets
import shutil
from collections.abc import Sequence

from msgspec import Struct

from potluck.model.error import SandboxUnavailable
from potluck.provider.sandbox.driver import Mount

# Above what systemd gives to containers and below the largest uid; nobody is anybody there.
_FIRST_UID = 0x7000_0000
_UIDS = 0x0FFF_0000
_NAMESPACE_UID = 1000
_FOR_OTHERS = 0o006  # to read and to write


class Identity(Struct, frozen=True):
    """Options of bwrap, and the words that go before the command inside."""

    uid: int  # as it looks inside
    options: tuple[str, ...]
    words: tuple[str, ...] = ()
    owns_files_of_host: bool = False  # whether writable mounts must be handed to the uid


def new_identity(groups: Sequence[int] = ()) -> Identity:
    """A user's own groups go with him into the namespace; root's run must be given them."""
    return _dropped_from_root(groups) if os.geteuid() == 0 else _namespaced()


def groups_of(nodes: Sequence[Mount]) -> list[int]:
    """That open these nodes, where not everybody may; never root's, who opens more than that."""
    status = [node.source.stat() for node in nodes]
    closed = {each.st_gid for each in status if each.st_mode & _FOR_OTHERS != _FOR_OTHERS}
    return sorted(closed - {0})


def new_uid() -> int:
    """Nobody's on this machine."""
    return _FIRST_UID + secrets.randbelow(_UIDS)


def user_mechanism() -> str:
    return "own uid" if os.geteuid() == 0 else "user namespace"


def _namespaced() -> Identity:
    uid = str(_NAMESPACE_UID)
    options = ("--unshare-user", "--disable-userns", "--uid", uid, "--gid", uid)
    return Identity(_NAMESPACE_UID, (*options, "--cap-drop", "ALL"))


def _dropped_from_root(groups: Sequence[int]) -> Identity:
    setpriv = shutil.which("setpriv", path="/usr/bin:/bin")
    if setpriv is None:
        raise SandboxUnavailable(
            "As root the sandbox needs the program setpriv, which is not there.",
            "Install util-linux, or run the provider as an ordinary user.",
        )
    uid = new_uid()
    capabilities = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
    options = [word for name in capabilities for word in ("--cap-add", name)]
    nothing = ("--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all")
    listed = ",".join(str(group) for group in groups)
    member = f"--groups={listed}" if groups else "--clear-groups"
    drop = (setpriv, f"--reuid={uid}", f"--regid={uid}", member, *nothing, "--")
    return Identity(uid, ("--cap-drop", "ALL", *options), drop, owns_files_of_host=True)
