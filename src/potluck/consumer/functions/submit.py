"""One call of a function, from its arguments to a future."""

from collections.abc import Callable

from potluck.consumer.functions.call import FunctionOrder
from potluck.consumer.functions.dispatch import Dispatch, dispatch_of
from potluck.consumer.functions.event_loop import in_event_loop
from potluck.consumer.functions.future import TaskFuture
from potluck.consumer.functions.pickling import pickled_call
from potluck.consumer.functions.sender import Submission
from potluck.model.error import Internal, PotluckError


def submit(
    order: FunctionOrder, arguments: tuple[object, ...], named: dict[str, object]
) -> TaskFuture[object]:
    """Arguments are taken as they are now. In an event loop nobody waits: what goes wrong from here
    on is told by the future.
    """
    dispatch = dispatch_of(order.options.client)
    data = pickled_call(arguments, named, order.modules())
    future: TaskFuture[object] = TaskFuture(dispatch)

    def send() -> None:
        if not future.cancelled():
            future.opened_by(order.opener(dispatch))
            request = order.request(dispatch, dispatch.value(data))
            dispatch.sender.put(Submission(request, future))

    soon(dispatch, send, future.refused)
    return future


def soon(
    dispatch: Dispatch, act: Callable[[], None], refused: Callable[[PotluckError], None]
) -> None:
    """Now, and raises what goes wrong; in an event loop by another thread, which tells it."""
    if not in_event_loop():
        act()
        return

    def prepare() -> None:
        try:
            act()
        except PotluckError as error:
            refused(error)
        except Exception as error:  # noqa: BLE001 - nobody is to wait for ever
            why = f"It could not be prepared: {type(error).__name__}: {error}."
            refused(Internal(why, "Look at what the function and its arguments hold on to."))

    dispatch.preparing.put(prepare)
