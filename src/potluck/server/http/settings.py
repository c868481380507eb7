"""Settings of the HTTP edge; part of the server's settings."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

Patience = Annotated[float, Meta(gt=0, le=3_600)]
# Zero means no limit.
Rate = Annotated[float, Meta(ge=0, le=1_000_000)]


class HttpSettings(Struct, frozen=True, kw_only=True):
    tls: Literal["auto"] | None = None  # auto: a private CA in the data directory
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_reload_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 3_600.0
    # Networks of proxies. Only they may connect, and only their forwarding headers are trusted.
    behind_proxy: tuple[str, ...] = ()

    handshake_seconds: Patience = 5.0
    header_seconds: Patience = (
        10.0  # from the connection, or from the first byte of a later request
    )
    body_seconds: Patience = 10.0  # between bytes, and before the minimum rate applies
    body_bytes_per_second: Rate = 1_000.0  # the minimum rate of a body
    send_seconds: Patience = 60.0  # how long a client may leave a response unread
    keep_alive_seconds: Patience = 20.0  # between two requests
    max_url_bytes: Annotated[int, Meta(ge=256)] = 8_192
    max_header_bytes: Annotated[int, Meta(ge=1_024)] = 16_384  # the request line and all headers
    max_headers: Annotated[int, Meta(ge=16)] = 100
    max_connections: Annotated[int, Meta(ge=2)] = 10_000  # bounded by the limit of open files
    max_connections_per_address: Annotated[int, Meta(ge=1)] = 1_000

    # Callers without an account are counted by address, since wallets are free; accounts by id. A
    # crowd is all callers from one address, or all machines of one account.
    address_requests_per_second: Rate = 20.0
    address_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    account_requests_per_second: Rate = 1_000.0
    account_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 5_000
    crowd_requests_per_second: Rate = 2_000.0
    crowd_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    # Of all callers without an account: pending sign-ins are kept in memory.
    terminal_asks_per_second: Rate = 50.0
    # Of one account: operations that call a webhook, or that need the leader's computing time.
    webhook_calls_per_second: Rate = 0.2
    webhook_calls_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 5
    estimates_per_second: Rate = 2.0
    estimates_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 20
