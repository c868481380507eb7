"""What admins do about alerts: test messages, and silences, which are in the audit log."""

from potluck.model.audit import AuditKind
from potluck.model.error import Conflict, NotFound
from potluck.model.ids import AccountId
from potluck.server.alerts.destinations import DeliveryResult
from potluck.server.services import Services
from potluck.store.alerts import alerts
from potluck.store.identity import audit
from potluck.wire.alerts import AlertTest, AlertTestResult, NewSilence, SilenceView

_MOST_SILENCES = 1_000


async def send_test(services: Services) -> AlertTest:
    seconds = services.settings.alert_send_seconds
    results = await services.alert_destinations.send_to_all(
        "Potluck: test", "This is a test message. Nothing is wrong.", True, seconds
    )
    return AlertTest([_test_result(result) for result in results])


def _test_result(result: DeliveryResult) -> AlertTestResult:
    problem = result.problem
    return AlertTestResult(result.destination.label, not problem, round(result.seconds, 3), problem)


async def silence(services: Services, actor: AccountId, wanted: NewSilence) -> SilenceView:
    async with services.database.transaction() as connection:
        if len(await alerts.list_silences(connection)) >= _MOST_SILENCES:
            raise Conflict(
                f"There are {_MOST_SILENCES} silences already.",
                "End some with `potluck admin alerts unsilence`.",
            )
        made = await alerts.add_silence(
            connection, actor, wanted.name, wanted.subject, wanted.seconds, wanted.comment
        )
        facts = {"alert": made.name, "subject": made.subject, "comment": made.comment}
        details = {key: str(value) for key, value in facts.items() if value}
        details["until"] = made.until.isoformat(timespec="seconds")
        await audit.append(
            connection, services.keys.audit, AuditKind.ALERT_SILENCED, actor, made.id, details
        )
    return made


async def end_silence(services: Services, actor: AccountId, silence_id: str) -> None:
    async with services.database.transaction() as connection:
        if not await alerts.end_silence(connection, silence_id):
            raise NotFound(
                f"No silence {silence_id} is in effect.", "`potluck admin alerts` lists them."
            )
        await audit.append(
            connection, services.keys.audit, AuditKind.ALERT_UNSILENCED, actor, silence_id
        )
