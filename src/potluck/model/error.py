"""Every error that Potluck reports to people and programs.

    PotluckError
    ├── InvalidInput          400 invalid_input        the request is not valid
    │   ├── UnaffordableTask  402 unaffordable         the account cannot pay for one attempt
    │   ├── TooLarge          413 too_large            the body exceeds the limit
    │   ├── RangeNotSatisfiable 416 range_not_satisfiable  the range is outside the blob
    │   ├── HeadersTooLarge   431 headers_too_large    the headers exceed the limit
    │   ├── DestinationRefused 400 destination_refused the server does not send to this address
    │   ├── AuthorizationPending 400 authorization_pending  not yet approved in a browser
    │   ├── SlowDown          400 slow_down            polled before the interval had passed
    │   ├── AccessDenied      400 access_denied        denied in a browser
    │   └── CodeExpired       400 expired_token        the terminal's code has expired, or was used
    ├── NotSignedIn           401 not_signed_in        no token, or an unknown one
    ├── Forbidden             403 forbidden            known, but not allowed
    │   ├── AccountSuspended  403 account_suspended    an admin has suspended the account
    │   ├── QuotaExceeded     403 quota_exceeded       the account has reached its quota
    │   └── RegistrationClosed 403 registration_closed a new wallet needs an invite, or cannot join
    ├── NotFound              404 not_found            does not exist, or is not yours
    ├── MethodNotAllowed      405 method_not_allowed
    ├── NotAcceptable         406 not_acceptable       no format that the client accepts
    ├── PreconditionFailed    412 precondition_failed  conditional changes are not supported
    ├── UnsupportedMediaType  415 unsupported_media_type
    ├── Conflict              409 conflict             the state of the object has changed
    │   ├── StaleLease        409 stale_lease          the attempt is no longer yours
    │   └── DeviceBound       409 device_bound         the device is bound to another wallet
    ├── UpgradeRequired       426 upgrade_required     client and server have different protocols
    ├── RateLimited           429 rate_limited         too many requests; retry later
    ├── Unavailable           503 unavailable          the server or its database is not ready
    ├── Unopenable            500 unopenable           encrypted with a missing key, or damaged
    ├── Internal              500 internal             a bug
    └── LocalError                                     never crosses the network
        ├── BadSettings           bad_settings         an invalid option, variable or file
        ├── ServerUnreachable     server_unreachable   the server does not respond
        ├── PortTaken             port_taken           another program uses the port
        ├── DataDirectoryInUse    data_directory_in_use
        ├── StartFailed           start_failed         a service did not become healthy
        ├── NodeKeyRefused        node_key_refused     the node key is revoked or has expired
        ├── NotRunning            not_running          no provider runs on this machine
        ├── SandboxUnavailable    sandbox_unavailable  no sandbox is safe for code of others
        ├── NotInstalled          not_installed        no service is installed for the provider
        ├── PartMissing           part_missing         an optional dependency is not installed
        ├── OutputLost            output_lost          the output cannot be written
        ├── BackupDamaged         backup_damaged       a backup is not as it was written
        ├── ChainUnreachable      chain_unreachable    an RPC or the treasury does not respond
        ├── TransactionRefused    transaction_refused  a contract, chain or treasury refused it
        ├── RemoteError           remote_error         a remote function raised an exception
        ├── TaskFailed            task_failed          a function's task ended without a result
        ├── UntrustedResult       untrusted_result     a result that is not safe to decode
        └── UntrustedWebhook      untrusted_webhook    an event without a current signature

Each leaf has a stable code, an HTTP status (or none), whether a retry can help, and the exit status
of the CLI. `detail` is a sentence for people; `hint` says what to do. Foreign errors are translated
into one of these once, at the edge. Code never matches on text.
"""

from typing import ClassVar


class PotluckError(Exception):
    """The root of the tree; only its leaves are raised."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong"
    retryable: ClassVar[bool] = False
    exit_status: ClassVar[int] = 1

    def __init__(self, detail: str, hint: str = "", retry_after_seconds: float | None = None):
        # Not of the next base: a subclass may be of a builtin type too, with its own arguments.
        Exception.__init__(self, detail)
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
    title = "The range is outside the blob"


class HeadersTooLarge(InvalidInput):
    code = "headers_too_large"
    status = 431
    title = "The headers are too large"


class DestinationRefused(InvalidInput):
    code = "destination_refused"
    title = "The server does not send to this address"


class AuthorizationPending(InvalidInput):
    code = "authorization_pending"
    title = "Not approved yet"
    retryable = True


class SlowDown(InvalidInput):
    code = "slow_down"
    title = "Polled too often"
    retryable = True


class AccessDenied(InvalidInput):
    code = "access_denied"
    title = "Denied in the browser"
    exit_status = 77


class CodeExpired(InvalidInput):
    code = "expired_token"
    title = "The code has expired"
    exit_status = 77


class NotSignedIn(PotluckError):
    code = "not_signed_in"
    status = 401
    title = "Not signed in"
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
    title = "The account has reached its quota"


class RegistrationClosed(Forbidden):
    code = "registration_closed"
    title = "This pool does not accept the new account"


class NotFound(PotluckError):
    code = "not_found"
    status = 404
    title = "Not found"
    exit_status = 66


class MethodNotAllowed(PotluckError):
    code = "method_not_allowed"
    status = 405
    title = "The method is not supported"


class NotAcceptable(PotluckError):
    code = "not_acceptable"
    status = 406
    title = "No response has an accepted format"


class PreconditionFailed(PotluckError):
    code = "precondition_failed"
    status = 412
    title = "The condition cannot be checked"


class UnsupportedMediaType(PotluckError):
    code = "unsupported_media_type"
    status = 415
    title = "The content type is not supported"


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
    title = "Client and server have different protocol versions"
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
    title = "A stored value cannot be decrypted"
    exit_status = 70


class Internal(PotluckError):
    title = "Internal error"
    exit_status = 70


class LocalError(PotluckError):
    """Raised on the machine where it is shown; it has no HTTP status."""


class BadSettings(LocalError):
    code = "bad_settings"
    title = "The settings are not valid"
    exit_status = 78


class ServerUnreachable(LocalError):
    code = "server_unreachable"
    title = "The server does not respond"
    retryable = True
    exit_status = 69


class PortTaken(LocalError):
    code = "port_taken"
    title = "The port is in use"
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
    title = "No service is installed"
    exit_status = 69


class PartMissing(LocalError):
    code = "part_missing"
    title = "An optional dependency is missing"
    exit_status = 69


class OutputLost(LocalError):
    code = "output_lost"
    title = "The output cannot be written"
    exit_status = 74


class BackupDamaged(LocalError):
    code = "backup_damaged"
    title = "The backup is damaged"
    exit_status = 76


class ChainUnreachable(LocalError):
    code = "chain_unreachable"
    title = "The chain cannot be reached"
    retryable = True
    exit_status = 69


class TransactionRefused(LocalError):
    code = "transaction_refused"
    title = "The transaction was refused"


class RemoteError(LocalError):
    """An exception of a function, as text: the exception object never leaves the node. That of a
    builtin type is of that type as well."""

    code = "remote_error"
    title = "The function raised an exception"

    def __init__(self, type_name: str, message: str = "", traceback: str = "", stderr: str = ""):
        super().__init__(f"{type_name}: {message}" if message else type_name)
        self.type_name = type_name
        self.message = message
        self.traceback = traceback
        self.stderr = stderr  # the end of what the call wrote there
        if stderr:
            self.add_note(f"The end of its stderr:\n{stderr.rstrip()}")
        if traceback:
            self.add_note(f"Where it ran:\n{traceback.rstrip()}")

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self) -> tuple[object, tuple[str, str, str, str]]:
        return type(self), (self.type_name, self.message, self.traceback, self.stderr)


class TaskFailed(LocalError):
    code = "task_failed"
    title = "The task has no result"


class UntrustedResult(LocalError):
    code = "untrusted_result"
    title = "The result is not safe to decode"
    exit_status = 76


class UntrustedWebhook(LocalError):
    code = "untrusted_webhook"
    title = "The event has no current signature"
    exit_status = 76


def by_code(code: str) -> type[PotluckError]:
    """The class of a code from the wire; `Internal` for an unknown one."""
    return _BY_CODE.get(code, Internal)


def network_errors() -> list[type[PotluckError]]:
    """Every error that crosses the network, in the order of the tree."""
    return [kind for kind in _leaves(PotluckError)[1:] if not issubclass(kind, LocalError)]


def _leaves(root: type[PotluckError]) -> list[type[PotluckError]]:
    classes = [root]
    for child in root.__subclasses__():
        classes.extend(_leaves(child))
    return classes


_BY_CODE = {kind.code: kind for kind in _leaves(PotluckError)} | {Internal.code: Internal}
