"""Runs inside the sandbox of an installation: the only way from there to the package index.

    forward.py SOCKET -- COMMAND … [-- COMMAND …]

Listens on loopback, pipes every connection to the proxy's Unix socket, and runs the commands in
turn with the proxy variables set; ends with the status of the first that fails. The word {python}
in a command is the interpreter that runs this. Nothing but the standard library is imported, so
that `-I -S` starts it with no file of the environment read.
"""

import asyncio
import contextlib
import os
import sys

_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


async def forward(socket: str, commands: list[list[str]]) -> int:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            up_reader, up_writer = await asyncio.open_unix_connection(socket)
            await asyncio.gather(pipe(reader, up_writer), pipe(up_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    return await run_all(commands, f"http://127.0.0.1:{port}")


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


async def run_all(commands: list[list[str]], proxy: str) -> int:
    environment = os.environ | {name: proxy for each in _VARIABLES for name in (each, each.lower())}
    for command in commands:
        words = [sys.executable if word == "{python}" else word for word in command]
        process = await asyncio.create_subprocess_exec(*words, env=environment)
        status = await process.wait()
        if status:
            return status if status > 0 else 128 - status
    return 0


def split_commands(words: list[str]) -> list[list[str]]:
    commands: list[list[str]] = []
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


if __name__ == "__main__":
    sys.exit(asyncio.run(forward(sys.argv[1], split_commands(sys.argv[2:]))))
