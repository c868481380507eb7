"""What to do about known causes of failures: one table, for the command line and for Python.

The texts come from nodes and are untrusted. A hint quotes only a name that its pattern admits, and
a path is looked up only below the current directory: others may lead to other machines.
"""

import os
import re
from pathlib import Path
from typing import Final

from msgspec import Struct

from potluck.model.task import EndReason

_MODULE: Final = r"No module named '?([A-Za-z_][A-Za-z0-9_]{0,63})"
_NO_NAME: Final = (
    r"name resolution|Name or service not known|nodename nor servname|getaddrinfo failed"
    r"|Could not resolve host|NameResolutionError|Network is unreachable"
)
_PATH: Final = r"No such file or directory: '([^'\n]{1,300})'"
_ABSOLUTE_PATH: Final = r"No such file or directory: '(/[^'\n]{1,299})'"


# Packages that are installed under another name than they are imported.
_PACKAGES: Final = {
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "yaml": "pyyaml",
}


# Before and after the code runs, the texts are the platform's.
_ENDS_OF_CODE: Final = (EndReason.EXIT_STATUS, EndReason.SIGNAL, EndReason.EXCEPTION)


class FailureCause(Struct, frozen=True):
    """A cause, found by the end reason or by a pattern in the last lines."""

    for_command: str  # the hint, in which {0} is the first group of the pattern
    for_python: str
    reasons: tuple[EndReason, ...] = ()
    pattern: str = r"(?!)"  # matches nothing
    is_of_local_file: bool = False  # only if the group names a file that exists here


# The first that fits counts.
CAUSES: Final = (
    FailureCause(
        "Run the script with --with {0}, or declare it there: `# /// script`, `# dependencies ="
        ' ["{0}"]`, `# ///` (the package may have another name); your own modules go with'
        " --folder. A --command has the packages of its node, an --image its own.",
        'Add its package to dependencies=["{0}"] (it may have another name), or send your own'
        " module with folder=….",
        pattern=_MODULE,
    ),
    FailureCause(
        "Tasks have no network unless they ask for it: --network HOST, through the proxy in"
        " HTTP_PROXY. Files can be sent with --file or --folder, packages declared in the script.",
        "Tasks have no network unless they ask for it: network=[HOST], through the proxy in"
        " HTTP_PROXY. Files can be sent with file= or folder=, packages named in dependencies=.",
        pattern=_NO_NAME,
    ),
    FailureCause(
        "{0} exists here, but a task sees only what is sent with it: add --file {0}, and let it"
        " open the file by its name alone.",
        "It exists here, but a task sees only what is sent with it, in its own directory:"
        ' file={{"NAME": "{0}"}}, and let it open NAME.',
        pattern=_ABSOLUTE_PATH,
        is_of_local_file=True,
    ),
    FailureCause(
        "{0} exists here, but a task sees only what is sent with it: --file {0}, or --folder.",
        'It exists here, but a task sees only what is sent with it: file={{"{0}": "{0}"}}, or'
        " folder=….",
        pattern=_PATH,
        is_of_local_file=True,
    ),
    FailureCause(
        "Its devices have too little memory for it: request more with --vram, such as 24GB.",
        'Its devices have too little memory for it: request more, such as vram="24GB".',
        pattern=r"CUDA out of memory|CUDA error: out of memory|HIP out of memory",
    ),
    FailureCause(
        "Request more memory with --ram, such as 4GiB.",
        'Request more memory, such as ram="4GiB".',
        (EndReason.MEMORY_LIMIT,),
        r"\bMemoryError\b|Cannot allocate memory|std::bad_alloc",
    ),
    FailureCause(
        "Request more disk space with --disk, such as 4GiB.",
        'Request more disk space, such as disk="4GiB".',
        (EndReason.DISK_LIMIT,),
        r"No space left on device|Disk quota exceeded",
    ),
    FailureCause(
        "Allow more processes and threads with --processes, such as 1024.",
        "Allow more processes and threads, such as processes=1024.",
        (EndReason.PROCESS_LIMIT,),
    ),
    FailureCause(
        "Allow more time to prepare with --prepare-time, such as 1h.",
        'Allow more time to prepare, such as prepare_time="1h".',
        (EndReason.PREPARE_TIME_LIMIT,),
    ),
    FailureCause(
        "Allow it more network with --network-limit, such as 50GB.",
        'Allow it more network, such as network_limit="50GB".',
        (EndReason.NETWORK_LIMIT,),
    ),
    FailureCause(
        "Allow more time with --time, such as 12h.",
        'Allow more time, such as time="12h".',
        (EndReason.TIME_LIMIT,),
    ),
)


def last_line(text: str) -> str:
    """Mostly the message of an exception."""
    return text.rpartition("\n")[2].strip()


def is_of_code(reason: EndReason | None) -> bool:
    """Whether what the code wrote last says why it ended."""
    return reason in _ENDS_OF_CODE


def find_hint(reason: EndReason | None, text: str, *, is_python: bool = False) -> str:
    """What to do about a failure with this reason and this text; empty if the cause is unknown."""
    for cause in CAUSES:
        match = re.search(cause.pattern, text) if reason in _ENDS_OF_CODE else None
        if match is None and reason not in cause.reasons:
            continue
        name = match[1] if match is not None and match.re.groups else ""
        if cause.is_of_local_file and not _is_local_file(name):
            continue
        hint = cause.for_python if is_python else cause.for_command
        return hint.format(_PACKAGES.get(name, name) if cause.pattern == _MODULE else name)
    return ""


def _is_local_file(name: str) -> bool:
    """Whether it is below the current directory, as it is written."""
    directory = Path.cwd()
    path = Path(os.path.normpath(directory / name))
    return directory in path.parents and name.isprintable() and path.exists()
