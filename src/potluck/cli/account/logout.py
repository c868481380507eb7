"""`potluck logout`: end the session of this profile."""

from contextlib import closing

from potluck.cli.options import JsonOption
from potluck.cli.terminal.screen import Screen, Tone
from potluck.model.error import NotSignedIn, PotluckError


def logout(json: JsonOption = False) -> None:
    """Sign out: end the session, and delete its tokens here."""
    from potluck.consumer.account import OwnAccount
    from potluck.consumer.http.connect import connect_with_profile
    from potluck.consumer.identity.profile import forget_session, load_profile

    screen = Screen(json)
    saved = load_profile()
    if saved is None or saved.session is None:
        _report(screen, None, None)
        return
    problem: PotluckError | None = None
    with closing(connect_with_profile(saved)) as line:
        try:
            OwnAccount(line).log_out()
        except NotSignedIn:
            pass  # it had ended already
        except PotluckError as error:
            problem = error
    forget_session(saved.url)
    _report(screen, saved.url, problem)


def _report(screen: Screen, url: str | None, problem: PotluckError | None) -> None:
    if screen.json:
        screen.emit({"url": url, "server_knows": url is not None and problem is None})
    elif url is None:
        screen.err.line("You are not signed in.")
    else:
        screen.out.line(f"Signed out of {url}. Your wallet is unchanged.")
    if problem is not None and not screen.json:
        screen.err.line(
            f"The server was not reached: {problem.detail} The session will expire there.",
            Tone.WAITING,
        )
