"""The results of tasks, one object for each."""

from collections.abc import Sequence

from potluck.consumer.files.files import MOST_VALUE_BYTES, Files
from potluck.consumer.functions.decode_value import ValueDecoder
from potluck.consumer.http.transport import Transport, call_api
from potluck.consumer.result.log import Pieces
from potluck.consumer.result.result import Result
from potluck.consumer.tasks import Tasks
from potluck.wire import routes
from potluck.wire.identity import Me
from potluck.wire.results import TaskResult


class TaskResults:
    """The results of one account's tasks."""

    def __init__(self, transport: Transport):
        self._transport = transport
        self._tasks = Tasks(transport)
        self._files = Files(transport)
        self._pieces = Pieces(transport, self._tasks)

    def get(
        self,
        task_id: str,
        *,
        allow_pickle: bool = False,
        from_wallets: Sequence[str] = (),
        max_result_bytes: int = MOST_VALUE_BYTES,
    ) -> Result:
        """The result of a task: values, files, log, usage and cost, each loaded on first access.

        Values are plain data. With `allow_pickle`, values of functions that were submitted with it
        are unpickled if they come from nodes of the caller's wallet or of one of `from_wallets`.
        """
        trusted: frozenset[str] | None = None
        if allow_pickle:
            own_wallet = call_api(self._transport, routes.ME, Me).address
            trusted = frozenset(wallet.lower() for wallet in (own_wallet, *from_wallets))
        task = self._tasks.get(task_id)
        opener = ValueDecoder(trusted, max_result_bytes)
        return Result(self._tasks, self._files, self._pieces, task, opener)

    def raw(self, task_id: str, behind: int = 0) -> TaskResult:
        """The value of a function task, exactly as the nodes reported it; see `has_more`."""
        return self._pieces.get(task_id, behind)
