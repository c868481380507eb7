"""Prints the OpenAPI document of the server, from which the dashboard's types are generated."""

import sys
from pathlib import Path

import msgspec

from potluck.server.api.app import make_app
from potluck.server.api.document.build import document
from potluck.server.services import Services
from potluck.server.settings import ServerSettings


def main() -> None:
    settings = ServerSettings(data_directory=Path("unused"))
    # The document needs the operations only; no service is called.
    services = Services(settings, *[None] * (len(Services.__struct_fields__) - 1))  # type: ignore[arg-type]
    sys.stdout.buffer.write(msgspec.json.encode(document(make_app(services))))


if __name__ == "__main__":
    main()
