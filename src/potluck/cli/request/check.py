"""From what somebody typed to a TaskRequest, with every mistake named by its option."""

import re
from collections.abc import Callable, Iterator
from math import inf

import msgspec

from potluck.cli.terminal.screen import printable
from potluck.cli.terminal.units import show_bytes, show_credits, show_seconds
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.task import TaskRequest
from potluck.model.task_spec import CommandSpec, ContainerSpec, ScriptSpec

_OPTIONS = {
    "$.name": "--name",
    "$.priority": "--priority",
    "$.max_attempts": "--attempts",
    "$.requirements.device_count": "--gpu",
    "$.requirements.device_memory_bytes": "--memory",
    "$.requirements.device_vendor": "--vendor",
    "$.requirements.device_model": "--model",
    "$.requirements.compute_capability": "--capability",
    "$.requirements.labels": "--label",
    "$.requirements.max_price_micro_per_hour": "--max-price",
    "$.requirements.cores": "--cores",
    "$.requirements.memory_bytes": "--ram",
    "$.requirements.disk_bytes": "--disk",
    "$.limits.run_seconds": "--time",
    "$.limits.stop_after_silence_seconds": "--stop-after-silence",
    "$.limits.checkpoint_seconds": "--checkpoint",
    "$.requirements.owners": "--owner",
    "$.trust": "--trust",
    "$.secrets": "--secret",
    "$.start_within_seconds": "--deadline",
    "$.delay_seconds": "--delay",
    "$.expected_seconds": "--expected",
    "$.spec.filename": "the script's name",
    "$.spec.source": "the script",
    "$.spec.arguments": "the script's arguments",
    "$.spec.environment": "--env",
    "$.spec.command": "the command",
    "$.spec.image": "--image",
}


_UNITS: dict[str, Callable[[float], str]] = {
    "--memory": lambda number: show_bytes(int(number)),
    "--ram": lambda number: show_bytes(int(number)),
    "--disk": lambda number: show_bytes(int(number)),
    "--time": show_seconds,
    "--stop-after-silence": show_seconds,
    "--checkpoint": show_seconds,
    "--deadline": show_seconds,
    "--delay": show_seconds,
    "--expected": show_seconds,
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


def parse_labels(words: list[str]) -> tuple[str, ...]:
    """`--label region=eu`, as often as needed; a label may also be a word alone."""
    for word in words:
        if not word.strip() or word != word.strip():
            raise InvalidInput(
                f"--label {printable(word)!r} is not a label.", "Write it like --label region=eu."
            )
    return tuple(dict.fromkeys(words))


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
    for is_wrong, sentence, hint in _contradictions(request):
        if is_wrong:
            raise InvalidInput(sentence, hint)
    try:
        return msgspec.convert(msgspec.to_builtins(_utf8_checked(request)), TaskRequest)
    except msgspec.ValidationError as error:
        sentence, _, path = str(error).partition(" - at ")
        option = _option(path)
        raise InvalidInput(
            f"{option} {_in_words(sentence, option)}.",
            "`potluck run --help` shows what may be asked for.",
        ) from error


def _contradictions(request: TaskRequest) -> Iterator[tuple[bool, str, str]]:
    """What each option allows, and two of them together do not."""
    wanted, delay = request.requirements, request.delay_seconds
    count, fraction = wanted.device_count, wanted.device_milli
    yield (
        fraction is not None and count > 1,
        f"--fraction is a part of one device, and --gpu asks for {count}.",
        "Leave one of them out.",
    )
    yield (
        wanted.shares_device and fraction is None,
        "--share is about the rest of a device, and without --fraction there is none.",
        "Say how much it needs, such as --fraction 0.25.",
    )
    yield (
        request.allow_failures > (request.items or 0),
        f"--allow-failures {request.allow_failures} is more than there are items.",
        "Say how many there are with --array.",
    )
    twice = sorted(request.secrets.keys() & request.spec.environment.keys())
    yield (
        bool(twice),
        f"{', '.join(twice)} can not be both --env and --secret.",
        "Leave one of them out; what --env says is no secret.",
    )
    yield (
        (request.trust or request.secrets_to_strangers) and not request.secrets,
        "--trust and --secrets-to-strangers are about secrets, and there is none.",
        "Name one with --secret; to choose whose nodes it runs on, say --owner WALLET.",
    )
    yield (
        delay is not None and delay >= (request.start_within_seconds or inf),
        "--delay is longer than --deadline, so it could never start.",
        "The deadline counts from now on, as the delay does.",
    )


def _in_words(sentence: str, option: str) -> str:
    """The decoder's complaint, for people."""
    if "of length >= 1" in sentence:
        return "can not be empty"
    length = re.search(r"`(\w+)` of length <= (\d+)", sentence)
    if length and length[1] == "str":
        return f"can not be longer than {int(length[2]):,} characters"
    if length:
        return f"can not be given more than {int(length[2]):,} times"
    bound = re.search(r"([<>]=?) (-?[\d.]+)", sentence)
    if bound:
        words = "at least" if bound[1].startswith(">") else "at most"
        return f"must be {words} {_UNITS.get(option, str)(float(bound[2]))}"
    if option in ("--owner", "--trust"):
        return "is not a wallet's address: 0x and 40 hexadecimal digits"
    if option == "--image":
        return "is not the name of an image, such as docker.io/library/busybox:1.37"
    if option == "--capability":
        return "is not a compute capability such as 8.6"
    if "regex" in sentence:
        return "can not have control characters"
    return f"does not fit: {sentence.replace('`', '')}"


def _option(path: str) -> str:
    path = path.strip("`")
    named = [option for prefix, option in _OPTIONS.items() if path.startswith(prefix)]
    return named[0] if named else path


def _utf8_checked(request: TaskRequest) -> TaskRequest:
    """Python shows bytes of the command line that are no UTF-8 as lone surrogates."""
    texts = [*request.spec.environment.values(), request.name or ""]
    match request.spec:
        case ScriptSpec():
            texts += [*request.spec.arguments, request.spec.filename]
        case CommandSpec() | ContainerSpec():
            texts += request.spec.command
    wanted = request.requirements
    words = (wanted.device_model, wanted.device_vendor, *wanted.labels)
    named = {text: repr(printable(text)) for text in [*texts, *(word or "" for word in words)]}
    named |= {value: f"The secret {name}" for name, value in request.secrets.items()}
    for text, shown in named.items():
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InvalidInput(
                f"{shown} is not valid UTF-8.", "Write it in UTF-8, or leave it out."
            )
    return request
