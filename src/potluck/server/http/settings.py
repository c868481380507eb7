"""Settings of the HTTP edge; part of the server's settings."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

Patience = Annotated[float, Meta(gt=0, le=3_600)]
# Zero means no limit.
Rate = Annotated[float, Meta(ge=0, le=1_000_000)]


class HttpSettings(Struct, frozen=True, kw_only=True):
    # `auto` makes a private authority and a certificate in `tls/` of the data directory.
    tls: Literal["auto"] | None = None
    # A certificate of your own, PEM, with those that vouch for it behind it.
    tls_cert: Path | None = None
    tls_key: Path | None = None  # its key, PEM, without a password
    # How often certificate files are read again, and our own is renewed if its end is near.
    tls_reload_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 3_600.0
    # Networks of proxies, with commas between. Only they may connect; what they forward is
    # believed.
    behind_proxy: tuple[str, ...] = ()

    handshake_seconds: Patience = 5.0  # how long a TLS handshake may take
    # How long the headers of a request may take, from connecting or from their first byte.
    header_seconds: Patience = 10.0
    # How long a body may be silent, and how long before the least rate counts.
    body_seconds: Patience = 10.0
    body_bytes_per_second: Rate = 1_000.0  # the least rate of a body; 0 is none
    send_seconds: Patience = 60.0  # how long a client may leave an answer unread
    keep_alive_seconds: Patience = 20.0  # how long a connection may rest between two requests
    max_url_bytes: Annotated[int, Meta(ge=256)] = 8_192  # the longest address of a request
    # The request line and all headers together.
    max_header_bytes: Annotated[int, Meta(ge=1_024)] = 16_384
    max_headers: Annotated[int, Meta(ge=16)] = 100  # the most headers
    # Connections at the same time, and at most four fifths of the files that the system lets the
    # server open.
    max_connections: Annotated[int, Meta(ge=2)] = 10_000
    # Of them from one address (one /64 of IPv6; 16 times as many from one /48), and at most half of
    # all. Not counted behind a proxy.
    max_connections_per_address: Annotated[int, Meta(ge=1)] = 1_000

    # Calls without a valid token from one address (one /64 of IPv6; 16 times as many from one /48);
    # 0 is no limit. Where only this machine can come, not saying it means 0.
    address_requests_per_second: Rate = 20.0
    address_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 200  # how many of them at once
    # Calls of one account, or of one node key; 0 is no limit.
    account_requests_per_second: Rate = 1_000.0
    account_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 5_000  # how many of them at once
    # Calls with a token from one address, and calls of all node keys of one account; 0 is no limit.
    crowd_requests_per_second: Rate = 2_000.0
    crowd_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000  # how many of them at once
    # Terminals that ask to be let in through a browser, from all addresses together, ten seconds'
    # worth of them at once; 0 is no limit.
    terminal_asks_per_second: Rate = 50.0
    # Tests, resumes, redeliveries and moves of one account's webhooks: each makes the server call
    # somebody at once; 0 is no limit.
    webhook_calls_per_second: Rate = 0.2
    webhook_calls_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 5  # how many of them at once
    # Estimates that one account asks for: each takes the leader's time; 0 is no limit.
    estimates_per_second: Rate = 2.0
    estimates_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 20  # how many of them at once
