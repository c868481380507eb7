"""The owner's commands' side of the conversation with the provider that runs here."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from potluck.model.error import BadSettings, DataDirectoryInUse, NotRunning
from potluck.provider.control.message import Answer, ProviderStatus, Request, ShowStatus
from potluck.provider.control.socket_path import connect

# Whoever takes longer for an answer says how it stands in the meantime.
_PATIENCE_SECONDS = 15.0
_DECODER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def ask(
    data_directory: Path, request: Request, patience_seconds: float = _PATIENCE_SECONDS
) -> Iterator[Answer]:
    """Its answers, as they come; the last one says how it went.

    Raises NotRunning, also if the provider ends before it has said so; and DataDirectoryInUse if
    one runs that can not be talked with.
    """
    try:
        connection, token = connect(data_directory, patience_seconds)
    except PermissionError as error:
        raise BadSettings(
            f"You may not look into {data_directory}.",
            "Do it as the user whose provider runs there, or name another with --data-dir.",
        ) from error
    except OSError as error:
        raise NotRunning(
            f"No provider runs in {data_directory}.",
            "Start one with: potluck provide URL (or name its directory with --data-dir).",
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
                f"The provider in {data_directory} runs, and does not answer.",
                "See what it waits for, or stop it: it goes on where it was at its next start.",
            ) from error
        except OSError as error:
            raise _ended(data_directory) from error


def _is_on_way(request: Request, answer: Answer) -> bool:
    """Whether it only says how it stands, and more is to come."""
    return isinstance(answer, ProviderStatus) and not isinstance(request, ShowStatus)


def _ended(data_directory: Path) -> NotRunning:
    return NotRunning(
        f"The provider in {data_directory} ended before it was done.",
        "Look at what it printed. What it held is taken up again when it starts.",
    )


def _decoded(line: bytes) -> Answer:
    try:
        return _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise DataDirectoryInUse(
            f"The provider that runs here is of another version ({error}).",
            "Start it anew, with the version that this command has.",
        ) from error
