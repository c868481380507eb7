"""What to do about an error that does not say so itself: a server of another version may not."""

from potluck.model.error import (
    AccountSuspended,
    Conflict,
    Forbidden,
    Internal,
    InvalidInput,
    LocalError,
    MethodNotAllowed,
    NotFound,
    NotSignedIn,
    PotluckError,
    QuotaExceeded,
    RateLimited,
    RemoteError,
    ServerUnreachable,
    TaskFailed,
    UnaffordableTask,
    Unavailable,
    Unopenable,
    UnsupportedMediaType,
    UpgradeRequired,
)

_NEXT: dict[type[PotluckError], str] = {
    InvalidInput: "Change what the sentence names, and try again; --help shows what is possible.",
    UnaffordableTask: "`potluck balance` shows your credits; ask for less time, or a lower price.",
    NotSignedIn: "Sign in with `potluck login`.",
    Forbidden: "`potluck whoami` shows what you may; an admin of the pool can change it.",
    AccountSuspended: "Ask an admin of the pool.",
    QuotaExceeded: "Cancel something or let it end; `potluck whoami` shows what you may have.",
    NotFound: "`potluck ps` lists your tasks; whole ids always work.",
    Conflict: "Look how it stands now with `potluck ps`, and try again.",
    MethodNotAllowed: "Client and server differ: `potluck doctor` shows both versions.",
    UnsupportedMediaType: "Client and server differ: `potluck doctor` shows both versions.",
    UpgradeRequired: "Install the newer version on the older side; `potluck doctor` shows both.",
    RateLimited: "Wait a little, and try again.",
    Unavailable: "Wait a little, and try again.",
    Unopenable: "Ask the operator: the server's log says which key is missing.",
    Internal: "Try again; if it stays, ask the operator to look into the server's log.",
    ServerUnreachable: "See that the server runs, and that the address is right: `potluck doctor`.",
    TaskFailed: "`potluck result TASK` tells how it ended, `potluck logs TASK` what it wrote.",
    RemoteError: "`potluck logs TASK` shows what it wrote before.",
    LocalError: "`potluck doctor` looks at everything that this machine needs.",
    PotluckError: "`potluck doctor` looks at everything that this machine needs.",
}


def next_step(error: PotluckError) -> str:
    """Its own hint, or that of the nearest of its kind."""
    return error.hint or next(_NEXT[kind] for kind in type(error).__mro__ if kind in _NEXT)
