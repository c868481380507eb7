"""What a server is called: names that others have too are good only where nobody else can come."""

from pathlib import Path

from potluck.server.origins import origins
from potluck.server.settings import read_settings
from tests.processes import Api, ServerProcess, free_port
from tests.wallets import Wallet


def named(tmp_path: Path, **options: object) -> tuple[str, ...]:
    server_settings = read_settings({"data_directory": tmp_path, **options}, {})
    return origins(server_settings, "https", 8470)


def test_a_server_for_this_machine_goes_by_its_loopback_names(tmp_path: Path) -> None:
    assert set(named(tmp_path)) == {
        "https://127.0.0.1:8470",
        "https://localhost:8470",
        "https://[::1]:8470",
    }


def test_a_server_for_others_does_not_go_by_names_that_every_machine_has(tmp_path: Path) -> None:
    origin_urls = named(tmp_path, host="0.0.0.0", tls="auto")
    assert origin_urls and not [
        url for url in origin_urls if "127.0.0.1" in url or "localhost" in url
    ]


def test_a_public_name_is_the_only_one(tmp_path: Path) -> None:
    assert named(tmp_path, public_url="https://Pool.Example:443") == ("https://pool.example",)


def test_a_signature_for_loopback_is_worth_nothing_at_a_public_pool(tmp_path: Path) -> None:
    """It may have been given at the end of a tunnel to somebody else's server."""
    port = free_port()
    with ServerProcess(tmp_path, port, POTLUCK_PUBLIC_URL="https://pool.example"):
        loopback, wallet = f"127.0.0.1:{port}", Wallet("at the end of a tunnel")
        api = Api(f"http://{loopback}", "")
        challenge = api.post("/v1/auth/challenge", {})
        assert challenge["origins"] == ["https://pool.example"]
        lured = wallet.answer(challenge, domain=loopback, uri=f"http://{loopback}")
        assert api.post("/v1/auth/login", lured)["status"] == 401
        invited = wallet.answer(challenge)
        assert api.post("/v1/auth/login", invited)["code"] == "registration_closed", "it was read"
