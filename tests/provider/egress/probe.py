"""Runs inside a sandbox: tries every destination in its file, and writes what came of each.

    probe.py DESTINATIONS

DESTINATIONS is JSON: a list of (name, method, target, head) entries. It talks to the proxy itself,
so that no library makes a spelling harmless before it is tried. Uses the standard library only.
"""

import json
import os
import socket
import sys


def ask(data: bytes) -> str:
    """The first line of the proxy's response, or what went wrong."""
    host, _, port = os.environ["HTTP_PROXY"].removeprefix("http://").partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=20) as end:
            end.settimeout(20)
            end.sendall(data)
            response = b""
            while b"\r\n" not in response and (piece := end.recv(65_536)):
                response += piece
    except OSError as error:
        return f"broken: {error}"
    return response.split(b"\r\n")[0].decode(errors="replace")


def directly(address: str, port: int) -> str:
    """Without the proxy."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as end:
            end.settimeout(2)
            end.connect((address, port))
    except OSError as error:
        return f"blocked: {error}"
    return "open"


def main(path: str) -> None:
    with open(path) as file:  # noqa: PTH123
        tries = json.load(file)
    for name, kind, target in tries:
        if kind == "direct":
            address, port = target
            result = directly(address, port)
        else:
            result = ask(target.encode("latin-1", "replace"))
        print(json.dumps([name, result]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
