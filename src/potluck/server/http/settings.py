"""What can be said to the edge; part of the server's settings."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

Patience = Annotated[float, Meta(gt=0, le=3_600)]
# Zero is no limit.
Rate = Annotated[float, Meta(ge=0, le=1_000_000)]


class HttpSettings(Struct, frozen=True, kw_only=True):
    tls: Literal["auto"] | None = None  # auto: a private CA in the data directory
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_reload_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 3_600.0
    # Networks of proxies. Only they may connect, and only they are believed about the client.
    behind_proxy: tuple[str, ...] = ()

    handshake_seconds: Patience = 5.0
    header_seconds: Patience = 10.0  # from connecting, or from the first byte of a later request
    body_seconds: Patience = 10.0  # without a byte; and before the least rate is asked for
    body_bytes_per_second: Rate = 1_000.0  # the least rate of a body
    send_seconds: Patience = 60.0  # how long a client may leave an answer unread
    keep_alive_seconds: Patience = 20.0  # between two requests
    max_url_bytes: Annotated[int, Meta(ge=256)] = 8_192
    max_header_bytes: Annotated[int, Meta(ge=1_024)] = 16_384  # the request line and all headers
    max_headers: Annotated[int, Meta(ge=16)] = 100
    max_connections: Annotated[int, Meta(ge=2)] = 10_000  # and no more than files allow
    max_connections_per_address: Annotated[int, Meta(ge=1)] = 1_000

    # Strangers are counted by their address, since wallets are free; accounts by their id. A crowd
    # is all who sign in from one address, or all machines of one account.
    address_requests_per_second: Rate = 20.0
    address_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 200
    account_requests_per_second: Rate = 1_000.0
    account_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 5_000
    crowd_requests_per_second: Rate = 2_000.0
    crowd_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    # Of all strangers together: what they ask for is kept in memory until it is answered.
    terminal_asks_per_second: Rate = 50.0
    # Of one account: what makes the server call somebody at once, and what its leader has to think.
    webhook_calls_per_second: Rate = 0.2
    webhook_calls_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 5
    estimates_per_second: Rate = 2.0
    estimates_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 20
