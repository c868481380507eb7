"""Submits one call of a function."""

from collections.abc import Callable

from potluck.consumer.functions.call import FunctionOrder
from potluck.consumer.functions.call_output import is_output_shown
from potluck.consumer.functions.call_stream import MOST_CALL_BYTES, WaitingCall
from potluck.consumer.functions.dispatch import Dispatch, get_dispatch
from potluck.consumer.functions.event_loop import in_event_loop
from potluck.consumer.functions.future import CallFuture, TaskFuture
from potluck.consumer.functions.pickling import pickle_call
from potluck.consumer.functions.sender import Submission
from potluck.model.error import Internal, PotluckError


def submit(
    order: FunctionOrder, arguments: tuple[object, ...], named: dict[str, object]
) -> TaskFuture[object]:
    """Pickles the arguments and sends the call. In an event loop the rest happens in a thread, and
    later errors are raised by the future.
    """
    dispatch = get_dispatch(order.options.client)
    data = pickle_call(arguments, named, order.modules())
    shows, keeps = is_output_shown(order.options.show_output), order.options.keep_running
    if order.is_streamed and len(data) <= MOST_CALL_BYTES:
        return _call(order, dispatch, data, CallFuture(dispatch, shows, keeps))
    future: TaskFuture[object] = TaskFuture(dispatch, shows, keeps)

    def send() -> None:
        if not future.cancelled():
            future.opened_by(order.opener(dispatch))
            request = order.request(dispatch, dispatch.value(data))
            dispatch.sender.put(Submission(request, future))

    run_off_loop(dispatch, send, future.refused)
    return future


def _call(
    order: FunctionOrder, dispatch: Dispatch, data: bytes, future: CallFuture[object]
) -> TaskFuture[object]:
    """Sends the call through the stream of its function and options."""

    def send() -> None:
        if not future.cancelled():
            dispatch.calls.put(WaitingCall(order.channel(dispatch), data, future))

    run_off_loop(dispatch, send, future.refused)
    return future


def run_off_loop(
    dispatch: Dispatch, act: Callable[[], None], refused: Callable[[PotluckError], None]
) -> None:
    """Calls `act` now; in an event loop in a thread, which passes errors to `refused`."""
    if not in_event_loop():
        act()
        return

    def prepare() -> None:
        try:
            act()
        except PotluckError as error:
            refused(error)
        except Exception as error:  # noqa: BLE001 - no caller may wait for ever
            why = f"The call could not be prepared: {type(error).__name__}: {error}."
            refused(Internal(why, "Check the objects that the function and its arguments use."))

    dispatch.preparing.put(prepare)
