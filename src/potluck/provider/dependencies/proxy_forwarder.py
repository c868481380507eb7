"""Runs inside the sandbox of an installation, as its only connection to the package index.

    proxy_forwarder.py SOCKET -- COMMAND … [-- COMMAND …]

Listens on loopback, pipes every connection to the proxy's Unix socket, and runs the commands in
turn with the proxy variables set; exits with the status of the first that fails. The word {python}
in a command stands for the interpreter that runs this. Imports the standard library only, so that
`-I -S` reads no file of the environment.
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
    names = (*_VARIABLES, *(name.lower() for name in _VARIABLES))
    environment = os.environ | dict.fromkeys(names, proxy)
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
