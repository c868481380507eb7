"""A function and what it is asked to run with, as a request."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from msgspec.structs import replace

from potluck.consumer.functions.capture import captured, is_same
from potluck.consumer.functions.decode_value import Opener
from potluck.consumer.functions.dispatch import PYTHON, Dispatch, UploadedFunction
from potluck.consumer.functions.options import Options, secrets_of
from potluck.consumer.functions.pickling import name_of, own_modules, pickled_function
from potluck.model.blob import BlobRef, NamedFile, Value
from potluck.model.error import InvalidInput
from potluck.model.task import Requirements, TaskRequest

# It goes out with every call, so a large one is sent once.
_CODE_INLINE_BYTES = 32_768


class Code:
    """A function's pickle, made anew when something that it refers to is another object."""

    def __init__(self, function: Callable[..., object]):
        self.function = function
        self.name = name_of(function)
        self._made: dict[bool, tuple[list[object], list[ModuleType], bytes]] = {}

    def get(self, has_folder: bool) -> tuple[list[ModuleType], bytes]:
        """The modules that travel by value, and the pickle. What a folder brings stays behind."""
        now = captured(self.function)
        made = self._made.get(has_folder)
        if made is None or not is_same(made[0], now):
            by_value = [] if has_folder else own_modules(self.function)
            made = now, by_value, pickled_function(self.function, by_value)
            self._made[has_folder] = made
        return made[1], made[2]


class FunctionOrder:
    """How a function is asked for: its code and its options, with all they need uploaded."""

    def __init__(self, code: Code, options: Options, remembered: UploadedFunction | None = None):
        self.code = code
        self.options = options
        self._remembered = remembered or UploadedFunction()

    def modules(self) -> list[ModuleType]:
        return self.code.get(self.options.folder is not None)[0]

    def opener(self, dispatch: Dispatch) -> Opener:
        most_bytes = self.options.max_result_bytes
        if not self.options.allow_pickle:
            return Opener(most_bytes=most_bytes)
        trusted = frozenset(wallet.lower() for wallet in self._trusted(dispatch))
        return Opener(trusted, most_bytes)

    def request(self, dispatch: Dispatch, inputs: Value, items: int | None = None) -> TaskRequest:
        options = self.options
        dispatch.check_python()
        spec = replace(
            options.spec,
            name=_printable(self.code.name),
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
            # Each item stands for itself: whoever iterates meets the error of the one that failed.
            allow_failures=items or 0,
            secrets=secrets_of(options),
        )

    def _code(self, dispatch: Dispatch) -> Value:
        data = self.code.get(self.options.folder is not None)[1]
        if len(data) <= _CODE_INLINE_BYTES:
            return Value(data)
        files = dispatch.client.files
        return Value(
            blob=self._remembered.get(
                (dispatch, "code", self.code.name), data, lambda: files.upload_bytes(data)
            )
        )

    def _folder(self, dispatch: Dispatch) -> BlobRef | None:
        folder = self.options.folder
        if folder is None:
            return None
        files = dispatch.client.files
        # It is not looked at again for each call: there may be thousands of files in it.
        return self._remembered.get((dispatch, "folder"), None, lambda: files.upload_folder(folder))

    def _files(self, dispatch: Dispatch) -> tuple[NamedFile, ...]:
        return tuple(
            NamedFile(path, self._file(dispatch, file)) for path, file in self.options.files.items()
        )

    def _file(self, dispatch: Dispatch, file: Path) -> BlobRef:
        files = dispatch.client.files
        return self._remembered.get((dispatch, file), _version(file), lambda: files.upload(file))

    def _requirements(self, dispatch: Dispatch) -> Requirements:
        """Where pickles are to be opened, only nodes run it whose pickles are."""
        wanted = self.options.request.requirements
        if self.options.on_own_nodes:
            wanted = replace(wanted, owners=(*wanted.owners, dispatch.wallet))
        if not self.options.allow_pickle:
            return wanted
        trusted = self._trusted(dispatch)
        named = {wallet.lower() for wallet in wanted.owners}
        owners = tuple(each for each in trusted if not named or each.lower() in named)
        if not owners:
            raise InvalidInput(
                "None of the owners that it may run at is one whose pickles are opened.",
                "Name them with from_wallets= as well.",
            )
        return replace(wanted, owners=owners)

    def _trusted(self, dispatch: Dispatch) -> tuple[str, ...]:
        return (dispatch.wallet, *self.options.from_wallets)


def _version(file: Path) -> tuple[int, int] | None:
    """Another one when it was written to; none if it is not there, which the upload says."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:200] or "function"
