"""Sends the owner's commands to the provider that runs on this machine."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from potluck.model.error import BadSettings, DataDirectoryInUse, NotRunning
from potluck.provider.control.message import Answer, ProviderStatus, Request, ShowStatus
from potluck.provider.control.socket_path import connect

# A provider that needs longer sends its status in the meantime.
_PATIENCE_SECONDS = 15.0
_DECODER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def ask(
    data_directory: Path, request: Request, patience_seconds: float = _PATIENCE_SECONDS
) -> Iterator[Answer]:
    """Yields the answers as they come; the last one is the result.

    Raises NotRunning, also if the provider stops before the result, and DataDirectoryInUse if one
    runs that does not answer or has another version.
    """
    try:
        connection, token = connect(data_directory, patience_seconds)
    except PermissionError as error:
        raise BadSettings(
            f"You have no permission to read {data_directory}.",
            "Run the command as the user whose provider runs there, or choose another directory"
            " with --data-dir.",
        ) from error
    except OSError as error:
        raise NotRunning(
            f"No provider runs in {data_directory}.",
            "Start one with `potluck provide URL`, or name its directory with --data-dir.",
        ) from error
    with closing(connection), connection.makefile("rwb") as stream:
        try:
            stream.write((f"{token}\n".encode() if token else b"") + msgspec.json.encode(request))
            stream.write(b"\n")
            stream.flush()
            last: Answer | None = None
            for last in map(_decoded, stream):
                yield last
            if last is None or _is_on_way(request, last):
                raise _ended(data_directory)
        except TimeoutError as error:
            raise DataDirectoryInUse(
                f"The provider in {data_directory} runs but does not answer.",
                "Look at its log, or restart it: it continues where it was.",
            ) from error
        except OSError as error:
            raise _ended(data_directory) from error


def _is_on_way(request: Request, answer: Answer) -> bool:
    """Whether it is an intermediate status, and more is to come."""
    return isinstance(answer, ProviderStatus) and not isinstance(request, ShowStatus)


def _ended(data_directory: Path) -> NotRunning:
    return NotRunning(
        f"The provider in {data_directory} stopped before it was done.",
        "Look at its output. It continues with its attempts when it starts again.",
    )


def _decoded(line: bytes) -> Answer:
    try:
        return _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise DataDirectoryInUse(
            f"The provider that runs here is of another version ({error}).",
            "Restart it with the version of this command.",
        ) from error
