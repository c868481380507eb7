"""Requests for calls of a function with its options."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from msgspec.structs import replace

from potluck.consumer.functions.call_stream import CallChannel
from potluck.consumer.functions.capture import capture_references, is_same
from potluck.consumer.functions.decode_value import ValueDecoder
from potluck.consumer.functions.dispatch import PYTHON, Dispatch, UploadedFunction
from potluck.consumer.functions.options import Options, resolve_secrets
from potluck.consumer.functions.pickling import find_own_modules, get_function_name, pickle_function
from potluck.model.blob import BlobRef, NamedFile, Value
from potluck.model.bounded_types import replace_deceiving
from potluck.model.error import InvalidInput
from potluck.model.task import Requirements, TaskRequest

# The code goes out with every call, so larger code is uploaded once.
_CODE_INLINE_BYTES = 32_768


class Code:
    """A function's pickle, renewed when the function refers to other objects than before."""

    def __init__(self, function: Callable[..., object]):
        self.function = function
        self.name = get_function_name(function)
        self._pickles: dict[bool, tuple[list[object], list[ModuleType], bytes]] = {}

    def get(self, has_folder: bool) -> tuple[list[ModuleType], bytes]:
        """The modules that are pickled by value (none if a folder brings them), and the pickle."""
        references = capture_references(self.function)
        entry = self._pickles.get(has_folder)
        if entry is None or not is_same(entry[0], references):
            by_value = [] if has_folder else find_own_modules(self.function)
            entry = references, by_value, pickle_function(self.function, by_value)
            self._pickles[has_folder] = entry
        return entry[1], entry[2]


class _LastChannel(NamedTuple):
    """Where the last call went: the next one of unchanged code goes there too."""

    dispatch: Dispatch
    code: bytes
    channel: CallChannel


class FunctionOrder:
    """A function's code and options, from which requests are made; uploads what they need."""

    def __init__(self, code: Code, options: Options, uploads: UploadedFunction | None = None):
        self.code = code
        self.options = options
        self._uploads = uploads or UploadedFunction()
        self._last: _LastChannel | None = None

    def modules(self) -> list[ModuleType]:
        return self.code.get(self.options.folder is not None)[0]

    def opener(self, dispatch: Dispatch) -> ValueDecoder:
        most_bytes = self.options.max_result_bytes
        if not self.options.allow_pickle:
            return ValueDecoder(most_bytes=most_bytes)
        trusted = frozenset(wallet.lower() for wallet in self._trusted(dispatch))
        return ValueDecoder(trusted, most_bytes)

    @property
    def is_streamed(self) -> bool:
        """Whether its calls can be items of a stream. What concerns a whole task, such as the time
        by which it must start, makes each call a task of its own."""
        request = self.options.request
        is_timed = request.delay_seconds is not None or request.start_within_seconds is not None
        return not (request.after or is_timed or self.options.is_alone)

    def channel(self, dispatch: Dispatch) -> CallChannel:
        """Where its calls go: another one when its code, files or secrets have changed."""
        code = self.code.get(self.options.folder is not None)[1]
        last = self._last
        has_more = bool(self.options.files or self.options.folder or self.options.secrets)
        is_same_order = last is not None and last.dispatch is dispatch and last.code is code
        if last is not None and is_same_order and not has_more and not last.channel.is_old:
            return last.channel
        channel = dispatch.calls.channel(self.request(dispatch, Value()), self.opener(dispatch))
        self._last = _LastChannel(dispatch, code, channel)
        return channel

    def request(self, dispatch: Dispatch, inputs: Value, items: int | None = None) -> TaskRequest:
        options = self.options
        spec = replace(
            options.spec,
            name=replace_deceiving(self.code.name, "?")[:200] or "function",
            code=self._code(dispatch),
            inputs=inputs,
            python=PYTHON,
            folder=self._folder(dispatch),
            files=self._files(dispatch),
        )
        return replace(
            options.request,
            spec=spec,
            requirements=self._requirements(dispatch),
            items=items,
            # A failed item fails alone: the iteration raises its error.
            allow_failures=items or 0,
            secrets=resolve_secrets(options),
        )

    def _code(self, dispatch: Dispatch) -> Value:
        data = self.code.get(self.options.folder is not None)[1]
        if len(data) <= _CODE_INLINE_BYTES:
            return Value(data)
        files = dispatch.client.files
        return Value(
            blob=self._uploads.get(
                (dispatch, "code", self.code.name), data, lambda: files.upload_bytes(data)
            )
        )

    def _folder(self, dispatch: Dispatch) -> BlobRef | None:
        folder = self.options.folder
        if folder is None:
            return None
        files = dispatch.client.files
        # Changes are not looked for at each call: there may be thousands of files in it.
        return self._uploads.get((dispatch, "folder"), None, lambda: files.upload_folder(folder))

    def _files(self, dispatch: Dispatch) -> tuple[NamedFile, ...]:
        return tuple(
            NamedFile(path, self._file(dispatch, file)) for path, file in self.options.files.items()
        )

    def _file(self, dispatch: Dispatch, file: Path) -> BlobRef:
        files = dispatch.client.files
        return self._uploads.get((dispatch, file), _version(file), lambda: files.upload(file))

    def _requirements(self, dispatch: Dispatch) -> Requirements:
        """With `allow_pickle`, only nodes whose pickles are trusted may run the function."""
        requirements = self.options.request.requirements
        if self.options.on_own_nodes:
            requirements = replace(requirements, owners=(*requirements.owners, dispatch.wallet))
        if not self.options.allow_pickle:
            return requirements
        trusted = self._trusted(dispatch)
        allowed = {wallet.lower() for wallet in requirements.owners}
        owners = tuple(wallet for wallet in trusted if not allowed or wallet.lower() in allowed)
        if not owners:
            raise InvalidInput(
                "No owner in owner= is trusted for pickles.",
                "Add their wallets to from_wallets= as well.",
            )
        return replace(requirements, owners=owners)

    def _trusted(self, dispatch: Dispatch) -> tuple[str, ...]:
        return (dispatch.wallet, *self.options.from_wallets)


def _version(file: Path) -> tuple[int, int] | None:
    """Changes when the file is written to; None if it is missing, which the upload reports."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
