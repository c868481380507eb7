"""The running platform: starts the parts one after the other, watches them, ends them in order."""

import contextlib
import math
import queue
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from potluck.cli.account.authorise import ASKED, has_ended
from potluck.cli.operate.checklist import Checklist, Step
from potluck.cli.operate.child_program import (
    Checked,
    ChildProgram,
    Happening,
    Inbox,
    ProgramEnded,
    ProgramLine,
    ServerMoved,
    Signalled,
    ended_how,
)
from potluck.cli.operate.first_task import FirstTask, begin_first_task
from potluck.cli.operate.operator import Operator, authorise_here, sign_in_here
from potluck.cli.operate.welcome import show_welcome, tell_of_profile, warn_of_variables
from potluck.cli.terminal.screen import Screen
from potluck.consumer.identity.profile import Profile, profile_path, saved_url
from potluck.model.error import NodeKeyRefused, PotluckError, SandboxUnavailable, StartFailed

SERVER, PROVIDER = "server", "provider"
_LOOK_UP_SECONDS = 1.0
_ANEW = (
    "its key was revoked, or the database is another: your wallet has authorised it anew",
    "`potluck up --no-provider` leaves it out.",
)


class PlatformPlan(Struct, frozen=True):
    """What to start, and how long to wait for it."""

    directory: Path
    operator: Operator
    server_options: tuple[str, ...]
    server_variables: dict[str, str]  # what may carry a password: it is not for command lines
    provider_options: tuple[str, ...] | None  # none: no provider here
    start_seconds: float = 180.0  # a first start makes a database; a slow disk takes its time
    check_seconds: float = 120.0
    stop_seconds: float = 30.0
    # A part that ends by itself is started again, unless it does so again and again.
    most_restarts: int = 5
    restart_window_seconds: float = 60.0


class Interrupted(Exception):
    """Somebody asked to stop while we were starting."""


class Platform:
    """Both parts and the inbox that all news come through."""

    def __init__(self, plan: PlatformPlan, screen: Screen):
        self._plan = plan
        self._screen = screen
        self._checklist = Checklist(screen)
        self._inbox: Inbox = queue.SimpleQueue()
        self._restarts: list[float] = []
        logs = plan.directory / "logs"
        self._server = ChildProgram(SERVER, logs / "server.log", self._inbox)
        self._provider = ChildProgram(PROVIDER, logs / "provider.log", self._inbox)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def run(self) -> None:
        """Returns after an orderly stop; raises if a part failed, with nothing left running."""
        try:
            self._start()
            self._watch()
        except Interrupted:
            if self._screen.err.is_terminal:
                self._say("")  # the terminal has just shown ^C
        finally:
            self._stop()
        self._emit("stopped")

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._inbox.put(Signalled())

    def _start(self) -> None:
        ready = self._start_server()
        before = saved_url()
        profile = self._profile = sign_in_here(self._plan.operator, ready["url"])
        offer = self._plan.provider_options
        node_id = None if offer is None else self._start_provider(profile, offer)
        if node_id is not None:
            self._run_first_task(profile, node_id)
        if self._screen.json:
            who = {"address": self._plan.operator.address, "profile": str(profile_path())}
            self._screen.emit({**ready, "event": "ready", **who})
        else:
            show_welcome(self._screen.err, profile.url, node_id is not None, ready.get("join"))
            tell_of_profile(self._screen.err, before, profile.url)
            warn_of_variables(self._screen.err, profile.url)

    def _start_server(self) -> dict[str, Any]:
        with self._checklist.step("server", "starting the database and the server") as step:
            self._launch_server(self._plan.server_options)
            ready = self._await(SERVER, "ready")
            step.done(f"answers at {ready['url']}")
        self._emit("server_ready", url=ready["url"])
        return ready

    def _start_provider(self, profile: Profile, offer: tuple[str, ...]) -> str | None:
        """The node that this machine is now; none if it can not be one."""
        with self._checklist.step("provider", "looking for devices and a sandbox") as step:
            is_anew = authorise_here(self._plan.operator, profile, self._provider_directory)
            self._launch_provider(profile, offer)
            try:
                registered = self._await(PROVIDER, "registered")
            except (SandboxUnavailable, NodeKeyRefused) as error:
                step.fell_short("takes no work here: " + error.detail, error.hint)
                self._emit("provider_unavailable", detail=error.detail, hint=error.hint)
                return None
            step.done(*describe_offer(registered), *(_ANEW if is_anew else ()))
        self._emit("provider_ready", registered=registered, authorised_anew=is_anew)
        return str(registered["node_id"])

    def _launch_server(self, options: tuple[str, ...]) -> None:
        options = (*self._at(SERVER), "--operator", self._plan.operator.address, *options)
        self._server.start("server", options, self._plan.server_variables)

    def _launch_provider(self, profile: Profile, offer: tuple[str, ...]) -> None:
        options = (profile.url, *self._at(PROVIDER), *offer)
        self._provider.start("provide", options, {ASKED: "1"})  # signing is done here

    def _run_first_task(self, profile: Profile, node_id: str) -> None:
        with self._checklist.step("first task", "running a first small task") as step:
            begin_first_task(profile, node_id, self._inbox)
            outcome = self._await_check(step)
            _tell_check(step, outcome)
        if isinstance(outcome, FirstTask):
            self._emit("first_task", task=outcome.task, stdout=outcome.stdout)
        else:
            self._emit("first_task_failed", detail=outcome.detail)

    @property
    def _provider_directory(self) -> Path:
        return self._plan.directory / PROVIDER

    def _at(self, part: str) -> tuple[str, ...]:
        return ("--data-dir", str(self._plan.directory / part))

    def _emit(self, event: str, **values: object) -> None:
        if self._screen.json:
            self._screen.emit({"event": event, **values})

    def _await(self, part: str, event: str) -> dict[str, Any]:
        """The named news of a part; its end, or a signal, ends the waiting."""
        deadline = time.monotonic() + self._plan.start_seconds
        while True:
            news = self._next(deadline)
            if news is None:
                raise self._too_slow(part)
            if (
                isinstance(news, ProgramLine)
                and news.part == part
                and news.values.get("event") == event
            ):
                return news.values

    def _await_check(self, step: Step) -> "FirstTask | PotluckError":
        deadline = time.monotonic() + self._plan.check_seconds
        while True:
            news = self._next(deadline)
            if news is None:
                return StartFailed(
                    f"it did not end within {self._plan.check_seconds:.0f} s",
                    "`potluck ps` shows where it is, and why.",
                )
            if isinstance(news, ServerMoved):
                step.say(f"running a first small task: {news.stage}")
            if isinstance(news, Checked):
                assert isinstance(news.outcome, FirstTask | PotluckError)
                return news.outcome

    def _watch(self) -> None:
        """A part that ends by itself comes back: nothing is lost, and nobody has to be there."""
        while True:
            news = self._hear(None)
            if isinstance(news, ProgramEnded) and self._part(news.part).is_to_end:
                self._say("The provider has ended, as its owner wanted. The server stays;")
                self._say("the next `potluck up` starts it again, `--no-provider` leaves it out.")
                self._emit("provider_ended")
            elif isinstance(news, ProgramEnded):
                self._revive(self._part(news.part), news.status)

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
        self._say(f"The {part.name} ended {ended_how(status)}; starting it again …")
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
        """For a key whose time is over. One that was revoked, somebody wanted to be revoked."""
        if not has_ended(self._provider_directory, self._profile.url):
            return False
        try:
            authorise_here(self._plan.operator, self._profile, self._provider_directory)
        except PotluckError as error:
            self._say(f"The wallet could not sign for the provider: {error.detail}")
            return False
        return True

    def _go_without_provider(self, error: NodeKeyRefused) -> None:
        """The pool is more than this machine's devices."""
        self._say(f"The provider has ended. {error.detail}")
        self._say("The server stays. The next `potluck up` authorises this machine again.")
        self._emit("provider_unavailable", detail=error.detail, hint=error.hint)

    def _next(self, deadline: float | None) -> Happening | None:
        """The next news that is good, or nothing in time; bad news are raised."""
        news = self._hear(deadline)
        if isinstance(news, ProgramEnded):
            raise self._part(news.part).failure(news.status)
        return news

    def _hear(self, deadline: float | None) -> Happening | None:
        news = self._collect(deadline)
        if isinstance(news, Signalled):
            raise Interrupted
        if isinstance(news, ProgramLine) and news.values.get("event") in ("ready", "registered"):
            self._part(news.part).has_served = True
        if isinstance(news, ProgramLine) and news.values.get("event") == "draining":
            self._part(news.part).is_to_end = True
        return news

    def _collect(self, deadline: float | None) -> Happening | None:
        """Looks up now and then: a signal that met another thread of ours wakes nobody."""
        while deadline is None or time.monotonic() < deadline:
            left = math.inf if deadline is None else deadline - time.monotonic()
            with contextlib.suppress(queue.Empty):
                return self._inbox.get(timeout=max(0.0, min(_LOOK_UP_SECONDS, left)))
        return None

    def _part(self, name: str) -> ChildProgram:
        return self._server if name == SERVER else self._provider

    def _too_slow(self, part: str) -> StartFailed:
        return StartFailed(
            f"The {part} was not ready after {self._plan.start_seconds:.0f} s."
            f" The end of its log:\n{self._part(part).tail()}",
            f"The whole log is in {self._part(part).log}.",
        )

    def _stop(self) -> None:
        """The provider first, so that it can still hand its work back to the server."""
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
            news = self._collect(deadline)
            if news is None:
                part.kill()
                return
            if isinstance(news, Signalled):  # the second one: at once
                self._provider.kill()
                self._server.kill()

    def _say(self, text: str) -> None:
        if not self._screen.json:
            self._screen.err.line(text)


def describe_offer(registered: dict[str, Any]) -> list[str]:
    """The devices and walls that the provider found, a line for each."""
    devices = [
        f"offers {device['kind'].upper()} {device['model']}" for device in registered["devices"]
    ]
    sandbox = registered["sandbox"]
    if sandbox["driver"] == "none":
        return [*devices, "without a sandbox, so it takes only your own tasks"]
    named = " and ".join(sandbox[wall] for wall in ("memory", "processes", "cpu")).split(" and ")
    walls = [wall for wall in dict.fromkeys(named) if wall != "none"]
    limits = f", limits by {' and '.join(walls)}" if walls else ""
    return [*devices, f"behind {sandbox['driver']}{limits}"]


def _tell_check(step: Step, outcome: "FirstTask | PotluckError") -> None:
    if isinstance(outcome, PotluckError):
        step.fell_short(f"failed: {outcome.detail}", outcome.hint)
    elif outcome.is_right:
        step.done(outcome.timing(), *outcome.stdout.splitlines())
    else:
        step.fell_short(f"failed: {outcome.explanation()}", "`potluck logs` shows what it wrote.")
