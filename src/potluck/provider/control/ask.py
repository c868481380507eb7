"""The owner's commands' side of the conversation with the provider that runs here."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from potluck.model.error import NotRunning
from potluck.provider.control.message import Answer, Request
from potluck.provider.control.place import connect

# Whoever takes longer for an answer says how it stands in the meantime.
_PATIENCE_SECONDS = 15.0
_DECODER: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def ask(
    data_directory: Path, request: Request, patience_seconds: float = _PATIENCE_SECONDS
) -> Iterator[Answer]:
    """Its answers, as they come; the last one says how it went. Raises NotRunning."""
    try:
        connection, token = connect(data_directory, patience_seconds)
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
            yield from map(_decoded, stream)
        except OSError as error:
            raise NotRunning(
                f"The provider in {data_directory} does not answer ({error}).",
                "See what it waits for, or stop it: it goes on where it was at its next start.",
            ) from error


def ask_once(data_directory: Path, request: Request) -> Answer:
    """Its last answer."""
    answers = list(ask(data_directory, request))
    if not answers:
        raise NotRunning(
            f"The provider in {data_directory} ended before it answered.",
            "Look at what it printed, and start it again.",
        )
    return answers[-1]


def _decoded(line: bytes) -> Answer:
    try:
        return _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise NotRunning(
            f"The provider that runs here is of another version ({error}).",
            "Start it anew, with the version that this command has.",
        ) from error
