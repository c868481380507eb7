"""Every error that Potluck tells a person or a program.

    PotluckError
    ├── InvalidInput          400 invalid_input        the request says something impossible
    │   ├── UnaffordableTask  402 unaffordable         the account cannot pay for one attempt
    │   ├── TooLarge          413 too_large            the body is over the limit
    │   ├── RangeNotSatisfiable 416 range_not_satisfiable  the bytes asked for are not there
    │   ├── HeadersTooLarge   431 headers_too_large    the headers are over the limit
    │   ├── DestinationRefused 400 destination_refused an address that the server does not send to
    │   ├── AuthorizationPending 400 authorization_pending  nobody has approved it in a browser yet
    │   ├── SlowDown          400 slow_down            asked again before the interval was over
    │   ├── AccessDenied      400 access_denied        somebody refused it in a browser
    │   └── CodeExpired       400 expired_token        the code of a terminal is too old, or used
    ├── NotSignedIn           401 not_signed_in        no token, or an unknown one
    ├── Forbidden             403 forbidden            known, but not allowed
    │   ├── AccountSuspended  403 account_suspended    an admin has suspended the account
    │   ├── QuotaExceeded     403 quota_exceeded       the account has all that it may have
    │   └── RegistrationClosed 403 registration_closed a new wallet needs an invite, or can not join
    ├── NotFound              404 not_found            no such thing, or not yours
    ├── MethodNotAllowed      405 method_not_allowed
    ├── NotAcceptable         406 not_acceptable       no kind of answer that the client takes
    ├── PreconditionFailed    412 precondition_failed  it was to be changed only if it was as named
    ├── UnsupportedMediaType  415 unsupported_media_type
    ├── Conflict              409 conflict             the thing is in another state than you think
    │   ├── StaleLease        409 stale_lease          the attempt is no longer yours
    │   └── DeviceBound       409 device_bound         the device is another wallet's
    ├── UpgradeRequired       426 upgrade_required     node and server speak different protocols
    ├── RateLimited           429 rate_limited         too many requests; retry later
    ├── Unavailable           503 unavailable          the server or its database is not ready
    ├── Unopenable            500 unopenable           sealed with a key that is gone, or damaged
    ├── Internal              500 internal             a bug of ours
    └── LocalError                                     never crosses the network
        ├── BadSettings           bad_settings         an option, variable or file says nonsense
        ├── ServerUnreachable     server_unreachable   nothing answers at the server's address
        ├── PortTaken             port_taken           another program listens there
        ├── DataDirectoryInUse    data_directory_in_use
        ├── StartFailed           start_failed         a part did not become healthy
        ├── NodeKeyRefused        node_key_refused     no wallet stands behind this machine any more
        ├── NotRunning            not_running          no provider answers on this machine
        ├── SandboxUnavailable    sandbox_unavailable  nothing here can run a stranger's code safely
        ├── NotInstalled          not_installed        no service manager took the provider up
        ├── PartMissing           part_missing         what this needs is not installed beside it
        ├── OutputLost            output_lost          a command can not write what it has to say
        ├── RemoteError           remote_error         a function raised an exception where it ran
        ├── TaskFailed            task_failed          a function's task ended without a result
        ├── UntrustedResult       untrusted_result     an answer that is not opened: it is no data
        └── UntrustedWebhook      untrusted_webhook    an event that the pool did not sign just now

Each leaf has a stable code, an HTTP status (or none), whether trying again can help, and the exit
status of the CLI. `detail` is a sentence for a person; `hint` says what to do about it. Foreign
errors are translated into one of these once, at the edge; nobody matches on text.
"""

from typing import ClassVar


class PotluckError(Exception):
    """The root; only its leaves are raised."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong"
    retryable: ClassVar[bool] = False
    exit_status: ClassVar[int] = 1

    def __init__(self, detail: str, hint: str = "", retry_after_seconds: float | None = None):
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.retry_after_seconds = retry_after_seconds


class InvalidInput(PotluckError):
    code = "invalid_input"
    status = 400
    title = "The request is not valid"
    exit_status = 64


class UnaffordableTask(InvalidInput):
    code = "unaffordable"
    status = 402
    title = "The account cannot pay for this task"


class TooLarge(InvalidInput):
    code = "too_large"
    status = 413
    title = "The request is too large"


class RangeNotSatisfiable(InvalidInput):
    code = "range_not_satisfiable"
    status = 416
    title = "There are no such bytes"


class HeadersTooLarge(InvalidInput):
    code = "headers_too_large"
    status = 431
    title = "The headers are too large"


class DestinationRefused(InvalidInput):
    code = "destination_refused"
    title = "The server does not send there"


class AuthorizationPending(InvalidInput):
    code = "authorization_pending"
    title = "Not approved yet"
    retryable = True


class SlowDown(InvalidInput):
    code = "slow_down"
    title = "Asked too often"
    retryable = True


class AccessDenied(InvalidInput):
    code = "access_denied"
    title = "Refused in the browser"
    exit_status = 77


class CodeExpired(InvalidInput):
    code = "expired_token"
    title = "The code is over"
    exit_status = 77


class NotSignedIn(PotluckError):
    code = "not_signed_in"
    status = 401
    title = "Sign in first"
    exit_status = 77


class Forbidden(PotluckError):
    code = "forbidden"
    status = 403
    title = "Not allowed"
    exit_status = 77


class AccountSuspended(Forbidden):
    code = "account_suspended"
    title = "The account is suspended"


class QuotaExceeded(Forbidden):
    code = "quota_exceeded"
    title = "The account has all that it may have"


class RegistrationClosed(Forbidden):
    code = "registration_closed"
    title = "This pool does not take new accounts so"


class NotFound(PotluckError):
    code = "not_found"
    status = 404
    title = "Not found"
    exit_status = 66


class MethodNotAllowed(PotluckError):
    code = "method_not_allowed"
    status = 405
    title = "That method is not offered here"


class NotAcceptable(PotluckError):
    code = "not_acceptable"
    status = 406
    title = "There is no answer of that kind here"


class PreconditionFailed(PotluckError):
    code = "precondition_failed"
    status = 412
    title = "It is not what it was to be"


class UnsupportedMediaType(PotluckError):
    code = "unsupported_media_type"
    status = 415
    title = "That content type is not understood here"


class Conflict(PotluckError):
    code = "conflict"
    status = 409
    title = "The state has changed"


class StaleLease(Conflict):
    code = "stale_lease"
    title = "The lease is no longer valid"


class DeviceBound(Conflict):
    code = "device_bound"
    title = "The device is bound to another wallet"


class UpgradeRequired(PotluckError):
    code = "upgrade_required"
    status = 426
    title = "One side is too old for the other"
    exit_status = 76


class RateLimited(PotluckError):
    code = "rate_limited"
    status = 429
    title = "Too many requests"
    retryable = True
    exit_status = 75


class Unavailable(PotluckError):
    code = "unavailable"
    status = 503
    title = "The server is not ready"
    retryable = True
    exit_status = 75


class Unopenable(PotluckError):
    code = "unopenable"
    title = "What is kept here can not be opened"
    exit_status = 70


class Internal(PotluckError):
    title = "The server made a mistake"
    exit_status = 70


class LocalError(PotluckError):
    """Raised on the machine where it is shown; it has no HTTP answer."""


class BadSettings(LocalError):
    code = "bad_settings"
    title = "The settings are not valid"
    exit_status = 78


class ServerUnreachable(LocalError):
    code = "server_unreachable"
    title = "The server does not answer"
    retryable = True
    exit_status = 69


class PortTaken(LocalError):
    code = "port_taken"
    title = "The port is taken"
    exit_status = 69


class DataDirectoryInUse(LocalError):
    code = "data_directory_in_use"
    title = "The data directory is in use"
    exit_status = 69


class StartFailed(LocalError):
    code = "start_failed"
    title = "It did not start"
    exit_status = 70


class NotRunning(LocalError):
    code = "not_running"
    title = "No provider runs here"
    exit_status = 69


class SandboxUnavailable(LocalError):
    code = "sandbox_unavailable"
    title = "No sandbox works here"
    exit_status = 69


class NodeKeyRefused(LocalError):
    code = "node_key_refused"
    title = "The node key is not accepted"
    exit_status = 77


class NotInstalled(LocalError):
    code = "not_installed"
    title = "It is not installed as a service"
    exit_status = 69


class PartMissing(LocalError):
    code = "part_missing"
    title = "A part that this needs is not installed"
    exit_status = 69


class OutputLost(LocalError):
    code = "output_lost"
    title = "The output can not be written"
    exit_status = 74


class RemoteError(LocalError):
    """An exception of a function, in words: what raised it was never more than text here."""

    code = "remote_error"
    title = "The function raised an exception"

    def __init__(self, type_name: str, message: str = "", traceback: str = ""):
        super().__init__(f"{type_name}: {message}" if message else type_name)
        self.type_name = type_name
        self.message = message
        self.traceback = traceback
        if traceback:
            self.add_note(f"Where it ran:\n{traceback.rstrip()}")

    def __reduce__(self) -> tuple[type["RemoteError"], tuple[str, str, str]]:
        return type(self), (self.type_name, self.message, self.traceback)


class TaskFailed(LocalError):
    code = "task_failed"
    title = "The task has no result"


class UntrustedResult(LocalError):
    code = "untrusted_result"
    title = "The result is not opened"
    exit_status = 76


class UntrustedWebhook(LocalError):
    code = "untrusted_webhook"
    title = "The event is not believed"
    exit_status = 76


def by_code(code: str) -> type[PotluckError]:
    """The class behind a code that came over the wire; `Internal` for one that we do not know."""
    return _BY_CODE.get(code, Internal)


def answers() -> list[type[PotluckError]]:
    """Every kind that is told over the network, in the order of the tree."""
    found = _leaves(PotluckError)[1:]
    return [kind for kind in found if not issubclass(kind, LocalError)]


def _leaves(root: type[PotluckError]) -> list[type[PotluckError]]:
    found = [root]
    for child in root.__subclasses__():
        found.extend(_leaves(child))
    return found


_BY_CODE = {kind.code: kind for kind in _leaves(PotluckError)} | {Internal.code: Internal}
