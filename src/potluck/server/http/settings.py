"""Settings of the HTTP edge; part of the server's settings."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

Patience = Annotated[float, Meta(gt=0, le=3_600)]
# Zero means no limit.
Rate = Annotated[float, Meta(ge=0, le=1_000_000)]


class HttpSettings(Struct, frozen=True, kw_only=True):
    # `auto` creates a private CA and a certificate in `tls/` of the data directory.
    tls: Literal["auto"] | None = None
    # Your own certificate in PEM, followed by its chain.
    tls_cert: Path | None = None
    tls_key: Path | None = None  # its key in PEM, without a password
    # How often certificate files are reloaded, and a generated one is renewed if it expires soon.
    tls_reload_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 3_600.0
    # Networks of trusted proxies, separated by commas. Only they may connect; their forwarding
    # headers are trusted.
    behind_proxy: tuple[str, ...] = ()

    handshake_seconds: Patience = 5.0  # how long a TLS handshake may take
    # How long request headers may take, from the connection or from their first byte.
    header_seconds: Patience = 10.0
    # How long a body may pause, and the time before its minimum rate applies.
    body_seconds: Patience = 10.0
    body_bytes_per_second: Rate = 1_000.0  # the minimum rate of a body; 0: none
    send_seconds: Patience = 60.0  # how long a client may leave a response unread
    keep_alive_seconds: Patience = 20.0  # how long a connection may be idle between requests
    max_url_bytes: Annotated[int, Meta(ge=256)] = 8_192  # the longest request URL
    # The largest size of the request line and all headers.
    max_header_bytes: Annotated[int, Meta(ge=1_024)] = 16_384
    max_headers: Annotated[int, Meta(ge=16)] = 100  # the maximum number of headers
    # The maximum number of connections, but at most four fifths of the server's open-file limit.
    max_connections: Annotated[int, Meta(ge=2)] = 10_000
    # The maximum from one address (IPv6: one /64; 16 times as many from one /48), but at most half
    # of all. Not applied behind a proxy.
    max_connections_per_address: Annotated[int, Meta(ge=1)] = 1_000

    # Requests without a valid token from one address (IPv6: one /64; 16 times as many from one
    # /48); 0: no limit. The default is 0 if only this machine can reach the server.
    address_requests_per_second: Rate = 20.0
    address_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 200  # the burst of these
    # Requests of one account or of one node key; 0: no limit.
    account_requests_per_second: Rate = 1_000.0
    account_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 5_000  # the burst of these
    # Requests with a token from one address, and requests of all node keys of one account; 0: no
    # limit.
    crowd_requests_per_second: Rate = 2_000.0
    crowd_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000  # the burst of these
    # Terminal sign-ins started through a browser, from all addresses together, with a burst of ten
    # seconds' worth; 0: no limit.
    terminal_asks_per_second: Rate = 50.0
    # Tests, resumes, redeliveries and address changes of one account's webhooks; each makes the
    # server send a request immediately. 0: no limit.
    webhook_calls_per_second: Rate = 0.2
    webhook_calls_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 5  # the burst of these
    # Estimates that one account requests, each of which takes the leader's time; 0: no limit.
    estimates_per_second: Rate = 2.0
    estimates_burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 20  # the burst of these
