"""The user that a run has on this machine: never root, never the owner of other files.

As an ordinary user, a run gets a user namespace with that user only. As root it cannot, because
mounts may lie in directories that only root may enter. So bwrap runs as root, and the first step
inside drops to a random high uid, without capabilities, and without groups except those that its
device nodes need.
"""

import os
import secrets
import shutil
from collections.abc import Sequence

from msgspec import Struct

from potluck.model.error import SandboxUnavailable
from potluck.provider.sandbox.driver import Mount

# Above systemd's range for containers and below the largest uid; no user is there.
_FIRST_UID = 0x7000_0000
_UIDS = 0x0FFF_0000
_NAMESPACE_UID = 1000
_OTHERS_READ_WRITE = 0o006


class Identity(Struct, frozen=True):
    """Options of bwrap, and the command prefix that drops privileges inside."""

    uid: int  # as seen inside
    options: tuple[str, ...]
    words: tuple[str, ...] = ()
    owns_files_of_host: bool = False  # whether writable mounts must be chowned to the uid


def new_identity(groups: Sequence[int] = ()) -> Identity:
    """`groups` matter for root only: in a user namespace the user keeps their own groups."""
    return _dropped_from_root(groups) if os.geteuid() == 0 else _namespaced()


def groups_of(nodes: Sequence[Mount]) -> list[int]:
    """Groups that may open these nodes, unless all users may; never root's, which opens more."""
    statuses = [node.source.stat() for node in nodes]
    mask = _OTHERS_READ_WRITE
    return sorted({status.st_gid for status in statuses if status.st_mode & mask != mask} - {0})


def new_uid() -> int:
    """A random uid that no user of this machine has."""
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
            "As root the sandbox needs the program setpriv, which is not installed.",
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
