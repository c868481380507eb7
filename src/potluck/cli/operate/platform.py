"""The running platform: starts the server and the provider, watches them, stops them in order."""

import contextlib
import math
import queue
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct, convert

from potluck.cli.account.authorise import AUTHORISED_VARIABLE, has_expired
from potluck.cli.operate.checklist import Checklist, Step
from potluck.cli.operate.child_program import (
    CheckDone,
    CheckProgress,
    ChildProgram,
    Inbox,
    PlatformEvent,
    ProgramEnded,
    ProgramLine,
    StopSignal,
    exit_text,
)
from potluck.cli.operate.dashboard_builder import DASHBOARD, DashboardBuilder, sentence
from potluck.cli.operate.first_task import FirstTask, start_first_task
from potluck.cli.operate.operator import Operator, authorise_provider, sign_in_operator
from potluck.cli.operate.welcome import show_welcome, warn_about_profile, warn_about_variables
from potluck.cli.terminal.screen import Screen
from potluck.consumer.identity.profile import Profile, load_url, profile_path
from potluck.local.data_directory import part_directory
from potluck.model.error import NodeKeyRefused, PotluckError, SandboxUnavailable, StartFailed
from potluck.model.node import SandboxReport

SERVER: Final = "server"
PROVIDER: Final = "provider"
_POLL_SECONDS = 1.0
_REAUTHORISED = (
    "its key was revoked, or the database is new: your wallet has authorised it again",
    "`potluck up --no-provider` starts without it.",
)


class PlatformPlan(Struct, frozen=True):
    """What to start, and the time limits."""

    directory: Path
    operator: Operator
    server_options: tuple[str, ...]
    server_variables: dict[str, str]  # may contain passwords, so not on the command line
    provider_options: tuple[str, ...] | None  # None: no provider
    start_seconds: float = 180.0  # a first start creates a database, on a slow disk perhaps
    check_seconds: float = 120.0
    stop_seconds: float = 30.0
    # A child that exits is restarted, at most this often within the window.
    most_restarts: int = 5
    restart_window_seconds: float = 60.0


class Interrupted(Exception):
    """A signal asked `up` to stop."""


class Platform:
    """Both children, and the inbox for all their events."""

    def __init__(self, plan: PlatformPlan, screen: Screen):
        self._plan = plan
        self._screen = screen
        self._checklist = Checklist(screen)
        self._inbox: Inbox = queue.SimpleQueue()
        self._restarts: list[float] = []
        logs = plan.directory / "logs"
        self._server = ChildProgram(SERVER, logs / "server.log", self._inbox)
        self._provider = ChildProgram(PROVIDER, logs / "provider.log", self._inbox)
        self._dashboard = DashboardBuilder(self._inbox)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def run(self) -> None:
        """Returns after an orderly stop; raises if a child failed. Nothing is left running."""
        try:
            self._start()
            self._dashboard.start()
            self._watch()
        except Interrupted:
            if self._screen.err.is_terminal:
                self._say("")  # the terminal has just shown ^C
        finally:
            self._stop()
        self._emit("stopped")

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._inbox.put(StopSignal())

    def _start(self) -> None:
        ready = self._start_server()
        before = load_url()
        profile = self._profile = sign_in_operator(self._plan.operator, ready["url"])
        offer = self._plan.provider_options
        node_id = None if offer is None else self._start_provider(profile, offer)
        if node_id is not None:
            self._run_first_task(profile, node_id)
        if self._screen.json:
            who = {"address": self._plan.operator.address, "profile": str(profile_path())}
            self._screen.emit({**ready, "event": "ready", **who})
        else:
            show_welcome(self._screen.err, profile.url, node_id is not None, ready.get("join"))
            warn_about_profile(self._screen.err, before, profile.url)
            warn_about_variables(self._screen.err, profile.url)

    def _start_server(self) -> dict[str, Any]:
        with self._checklist.step("server", "starting the database and the server") as step:
            self._launch_server(self._plan.server_options)
            ready = self._await(SERVER, "ready", step)
            step.done(f"runs at {ready['url']}")
        self._emit("server_ready", url=ready["url"])
        return ready

    def _start_provider(self, profile: Profile, offer: tuple[str, ...]) -> str | None:
        """Returns the node id; None if this machine cannot provide."""
        with self._checklist.step("provider", "looking for devices and a sandbox") as step:
            is_anew = authorise_provider(self._plan.operator, profile, self._provider_directory)
            self._launch_provider(profile, offer)
            try:
                registered = self._await(PROVIDER, "registered")
            except (SandboxUnavailable, NodeKeyRefused) as error:
                step.warn("takes no work: " + error.detail, error.hint)
                self._emit("provider_unavailable", detail=error.detail, hint=error.hint)
                return None
            step.done(*describe_offer(registered), *(_REAUTHORISED if is_anew else ()))
        self._emit("provider_ready", registered=registered, authorised_anew=is_anew)
        return str(registered["node_id"])

    def _launch_server(self, options: tuple[str, ...]) -> None:
        options = (*self._data_option, "--operator", self._plan.operator.address, *options)
        self._server.start("server", options, self._plan.server_variables)

    def _launch_provider(self, profile: Profile, offer: tuple[str, ...]) -> None:
        options = (profile.url, *self._data_option, *offer)
        self._provider.start("provide", options, {AUTHORISED_VARIABLE: "1"})  # signing is done here

    def _run_first_task(self, profile: Profile, node_id: str) -> None:
        with self._checklist.step("first task", "running a first small task") as step:
            start_first_task(profile, node_id, self._inbox)
            outcome = self._await_check(step)
            _show_check(step, outcome)
        if isinstance(outcome, FirstTask):
            self._emit("first_task", task=outcome.task, stdout=outcome.stdout)
        else:
            self._emit("first_task_failed", detail=outcome.detail)

    @property
    def _provider_directory(self) -> Path:
        return part_directory(PROVIDER, self._plan.directory)

    @property
    def _data_option(self) -> tuple[str, ...]:
        return ("--data-dir", str(self._plan.directory))

    def _emit(self, event: str, **values: object) -> None:
        if self._screen.json:
            self._screen.emit({"event": event, **values})

    def _await(self, part: str, name: str, step: Step | None = None) -> dict[str, Any]:
        """Waits for an event of a child; raises if a child exits or a signal arrives."""
        deadline = time.monotonic() + self._plan.start_seconds
        while True:
            event = self._next(deadline)
            if event is None:
                raise self._too_slow(part)
            if not isinstance(event, ProgramLine) or event.part != part:
                continue
            if event.values.get("event") == name:
                return event.values
            if step is not None and event.values.get("event") == "waiting":
                step.say(f"waiting for {event.values['service']}: {event.values['detail']}")

    def _await_check(self, step: Step) -> "FirstTask | PotluckError":
        deadline = time.monotonic() + self._plan.check_seconds
        while True:
            event = self._next(deadline)
            if event is None:
                return StartFailed(
                    f"it did not finish within {self._plan.check_seconds:.0f} s",
                    "`potluck ps` shows its state.",
                )
            if isinstance(event, CheckProgress):
                step.say(f"running a first small task: {event.stage}")
            if isinstance(event, CheckDone):
                assert isinstance(event.outcome, FirstTask | PotluckError)
                return event.outcome

    def _watch(self) -> None:
        """Restarts a child that exits, until a signal arrives."""
        while True:
            event = self._hear(None)
            if isinstance(event, ProgramLine) and event.part == DASHBOARD:
                self._show_dashboard(event.values)
            elif isinstance(event, ProgramEnded) and self._part(event.part).is_draining:
                self._say("The provider has stopped, as its owner asked. The server continues;")
                self._say(
                    "the next `potluck up` starts the provider, unless --no-provider is given."
                )
                self._emit("provider_ended")
            elif isinstance(event, ProgramEnded):
                self._revive(self._part(event.part), event.status)

    def _show_dashboard(self, values: dict[str, Any]) -> None:
        if text := sentence(values, self._profile.url):
            self._say(text)
        self._emit(DASHBOARD, state=values.get("event"), detail=values.get("detail", ""))

    def _revive(self, part: ChildProgram, status: int) -> None:
        error = part.failure(status)
        if isinstance(error, NodeKeyRefused) and not self._signs_again():
            self._go_without_provider(error)
            return
        now = time.monotonic()
        recent = [at for at in self._restarts if now - at < self._plan.restart_window_seconds]
        self._restarts = [*recent, now]
        if not part.has_served or len(recent) >= self._plan.most_restarts:
            raise error
        self._say(f"The {part.name} exited {exit_text(status)}; restarting …")
        self._emit("restarting", part=part.name, status=status)
        if part is self._server:
            port = str(urlsplit(self._profile.url).port)
            self._launch_server((*self._plan.server_options, "--port", port))
            self._await(SERVER, "ready")
        elif self._plan.provider_options is not None:
            self._launch_provider(self._profile, self._plan.provider_options)
            try:
                self._await(PROVIDER, "registered")
            except NodeKeyRefused as refused:
                self._go_without_provider(refused)
                return
        self._say(f"The {part.name} is back.")
        self._emit("restarted", part=part.name)

    def _signs_again(self) -> bool:
        """Authorises an expired key again; a revoked one was revoked on purpose."""
        if not has_expired(self._provider_directory, self._profile.url):
            return False
        try:
            authorise_provider(self._plan.operator, self._profile, self._provider_directory)
        except PotluckError as error:
            self._say(f"The wallet could not sign for the provider: {error.detail}")
            return False
        return True

    def _go_without_provider(self, error: NodeKeyRefused) -> None:
        self._say(f"The provider has stopped. {error.detail}")
        self._say("The server continues. The next `potluck up` authorises this machine again.")
        self._emit("provider_unavailable", detail=error.detail, hint=error.hint)

    def _next(self, deadline: float | None) -> PlatformEvent | None:
        """The next event, or None at the deadline; raises if a child has exited."""
        event = self._hear(deadline)
        if isinstance(event, ProgramEnded):
            raise self._part(event.part).failure(event.status)
        return event

    def _hear(self, deadline: float | None) -> PlatformEvent | None:
        event = self._collect(deadline)
        if isinstance(event, StopSignal):
            raise Interrupted
        if isinstance(event, ProgramLine) and event.values.get("event") in ("ready", "registered"):
            self._part(event.part).has_served = True
        if isinstance(event, ProgramLine) and event.values.get("event") == "draining":
            self._part(event.part).is_draining = True
        return event

    def _collect(self, deadline: float | None) -> PlatformEvent | None:
        """Polls, because a signal handled in another thread does not wake this one."""
        while deadline is None or time.monotonic() < deadline:
            left = math.inf if deadline is None else deadline - time.monotonic()
            with contextlib.suppress(queue.Empty):
                return self._inbox.get(timeout=max(0.0, min(_POLL_SECONDS, left)))
        return None

    def _part(self, name: str) -> ChildProgram:
        return self._server if name == SERVER else self._provider

    def _too_slow(self, part: str) -> StartFailed:
        return StartFailed(
            f"The {part} was not ready after {self._plan.start_seconds:.0f} s."
            f" The end of its log:\n{self._part(part).tail()}",
            f"The full log is in {self._part(part).log}.",
        )

    def _stop(self) -> None:
        """Stops the provider first, so it can return its work to the server."""
        self._dashboard.stop()
        for part in (self._provider, self._server):
            if part.is_running:
                self._say(f"Stopping the {part.name} …")
                self._emit("stopping", part=part.name)
                part.ask_to_stop()
                self._await_end(part)
        self._say("Stopped.")

    def _await_end(self, part: ChildProgram) -> None:
        deadline = time.monotonic() + self._plan.stop_seconds
        while part.is_running:
            event = self._collect(deadline)
            if event is None:
                part.kill()
                return
            if isinstance(event, StopSignal):  # the second signal: stop immediately
                self._provider.kill()
                self._server.kill()

    def _say(self, text: str) -> None:
        if not self._screen.json:
            self._screen.err.line(text)


def describe_offer(registered: dict[str, Any]) -> list[str]:
    """The provider's devices and its sandbox, one line each."""
    devices = [
        f"offers {device['kind'].upper()} {device['model']}" for device in registered["devices"]
    ]
    sandbox = convert(registered["sandbox"], SandboxReport)
    if not sandbox.is_safe_for_strangers:
        weak = f"sandbox: {sandbox.driver}, which {sandbox.weakness}"
        text = "no sandbox" if sandbox.driver == "none" else weak
        return [*devices, f"{text}: takes only your own tasks"]
    names = " and ".join((sandbox.memory, sandbox.processes, sandbox.cpu)).split(" and ")
    mechanisms = [name for name in dict.fromkeys(names) if name != "none"]
    return [*devices, f"sandbox: {sandbox.driver}, limits by {' and '.join(mechanisms)}"]


def _show_check(step: Step, outcome: "FirstTask | PotluckError") -> None:
    if isinstance(outcome, PotluckError):
        step.warn(f"failed: {outcome.detail}", outcome.hint)
    elif outcome.is_right:
        step.done(outcome.timing(), *outcome.stdout.splitlines())
    else:
        step.warn(f"failed: {outcome.explanation()}", "`potluck logs` shows its output.")
