"""Runs inside the sandbox of an installation: several commands, one after the other.

    command_sequence.py -- COMMAND … [-- COMMAND …]

Exits with the status of the first that fails. The word {python} in a command stands for the
interpreter that runs this. Imports the standard library only, so that `-I -S` reads no file of the
environment.
"""

import subprocess
import sys


def run_all(commands: list[list[str]]) -> int:
    for command in commands:
        words = [sys.executable if word == "{python}" else word for word in command]
        status = subprocess.run(words, check=False).returncode
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
    sys.exit(run_all(split_commands(sys.argv[1:])))
