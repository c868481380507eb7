"""Sends errors to Sentry, for operators who have it; nothing without a DSN.

Only the exception goes: no request, no user, no variables, no breadcrumbs, no source code, and no
integration that would collect them. What looks like a secret is masked.
"""

from typing import Any

from potluck.local.log import ErrorObserver
from potluck.local.optional_dependency import install_hint
from potluck.local.secret_patterns import mask_secrets
from potluck.model.error import BadSettings, PartMissing


def open_sentry(dsn: str, setting: str, version: str) -> ErrorObserver:
    try:
        import sentry_sdk
    except ImportError as error:
        raise PartMissing(
            f"{setting} needs Sentry's SDK, which is not installed.", install_hint("sentry")
        ) from error
    try:
        sentry_sdk.init(
            dsn=dsn,
            release=f"potluck@{version}",
            default_integrations=False,
            auto_enabling_integrations=False,
            include_local_variables=False,
            include_source_context=False,
            max_breadcrumbs=0,
            max_request_body_size="never",
            server_name="",
            before_send=_without_secrets,
        )
    except sentry_sdk.utils.BadDsn:
        # Its text may contain the key.
        raise BadSettings(f"{setting} is not a DSN.", "Copy it from Sentry.") from None

    def observe(event: str, exception: BaseException | None, _: str) -> None:
        if exception is None:
            sentry_sdk.capture_message(event, level="error")
        else:
            sentry_sdk.capture_exception(exception)

    return observe


def _without_secrets(event: Any, _: Any) -> Any:
    return _masked(event)


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, dict):
        return {key: _masked(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(element) for element in value]
    return value
