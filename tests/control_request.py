"""Asks a running provider as commands do, for those who wait for the last word."""

from pathlib import Path

from potluck.provider.control.client import ask
from potluck.provider.control.message import Answer, Request


def ask_once(data_directory: Path, request: Request) -> Answer:
    return list(ask(data_directory, request))[-1]
