"""From what somebody typed to a TaskRequest, with every mistake named by its option."""

import re
from collections.abc import Callable

import msgspec

from potluck.cli.screen import printable
from potluck.cli.units import show_bytes, show_credits, show_seconds
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.task import TaskRequest

_OPTIONS = {
    "$.name": "--name",
    "$.priority": "--priority",
    "$.max_attempts": "--attempts",
    "$.requirements.device_count": "--gpu",
    "$.requirements.device_memory_bytes": "--device-memory",
    "$.requirements.device_model": "--model",
    "$.requirements.max_price_micro_per_hour": "--max-price",
    "$.requirements.cores": "--cores",
    "$.requirements.memory_bytes": "--memory",
    "$.requirements.disk_bytes": "--disk",
    "$.limits.run_seconds": "--time",
    "$.spec.filename": "the script's name",
    "$.spec.source": "the script",
    "$.spec.arguments": "the script's arguments",
    "$.spec.environment": "--env",
}


_UNITS: dict[str, Callable[[float], str]] = {
    "--device-memory": lambda number: show_bytes(int(number)),
    "--memory": lambda number: show_bytes(int(number)),
    "--disk": lambda number: show_bytes(int(number)),
    "--time": show_seconds,
    "--max-price": lambda number: f"{show_credits(int(number))} credits",
    "--cores": lambda number: f"{number:.0f}",
    "--priority": lambda number: f"{number:.0f}",
    "--attempts": lambda number: f"{number:.0f}",
    "--gpu": lambda number: f"{number:.0f}",
}


def parse_environment(pairs: list[str]) -> dict[str, str]:
    """`--env NAME=value`, as often as needed; the last one of a name wins."""
    environment = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise InvalidInput(
                f"--env {printable(pair)!r} is not NAME=value.", "Write it like --env SEED=42."
            )
        environment[name] = value
    return environment


def device_needs(gpus: int, kind: DeviceKind | None) -> tuple[DeviceKind | None, int]:
    """The kind and number of devices: `--gpu 0` means one of any kind."""
    if gpus == 0:
        return kind, 1
    if kind is DeviceKind.CPU:
        raise InvalidInput(
            f"--gpu {gpus} and --device-kind cpu contradict each other.", "Leave one of them out."
        )
    return DeviceKind.GPU, gpus


def checked(request: TaskRequest) -> TaskRequest:
    """The same request, now known to be one that the server takes."""
    try:
        return msgspec.convert(msgspec.to_builtins(_utf8_checked(request)), TaskRequest)
    except msgspec.ValidationError as error:
        sentence, _, path = str(error).partition(" - at ")
        option = _option(path)
        raise InvalidInput(
            f"{option} {_in_words(sentence, option)}.",
            "`potluck run --help` shows what may be asked for.",
        ) from error


def _in_words(sentence: str, option: str) -> str:
    """The decoder's complaint, for people."""
    length = re.search(r"of length <= (\d+)", sentence)
    if length:
        return f"can not be longer than {int(length[1]):,}"
    bound = re.search(r"([<>]=?) (-?[\d.]+)", sentence)
    if bound:
        words = "at least" if bound[1].startswith(">") else "at most"
        return f"must be {words} {_UNITS.get(option, str)(float(bound[2]))}"
    if "regex" in sentence:
        return "can not have control characters"
    return f"does not fit: {sentence.replace('`', '')}"


def _option(path: str) -> str:
    path = path.strip("`")
    named = [option for prefix, option in _OPTIONS.items() if path.startswith(prefix)]
    return named[0] if named else path


def _utf8_checked(request: TaskRequest) -> TaskRequest:
    """Python shows bytes of the command line that are no UTF-8 as lone surrogates."""
    texts = [*request.spec.arguments, *request.spec.environment.values(), request.name or ""]
    for text in [*texts, request.spec.filename, request.requirements.device_model or ""]:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InvalidInput(
                f"{printable(text)!r} is not valid UTF-8.", "Write it in UTF-8, or leave it out."
            )
    return request
