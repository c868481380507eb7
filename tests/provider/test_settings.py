"""Settings: options over variables over defaults, and a sentence for what does not fit."""

from pathlib import Path
from typing import Any

import pytest

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.error import BadSettings, DataDirectoryInUse
from potluck.model.node import NodeDescription, SandboxReport
from potluck.provider.data_directory import (
    attempts_directory,
    load_node_id,
    lock_directory,
    save_node_id,
)
from potluck.provider.devices.offer import OfferedDisk, describe_node
from potluck.provider.owner.live_rules import OwnerRules
from potluck.provider.settings import ProviderSettings, read_settings
from potluck.store.new_ids import new_node_id

URL = "http://127.0.0.1:8470"


def read(options: dict[str, Any] | None = None, **variables: str) -> ProviderSettings:
    return read_settings(URL, None, options or {}, variables)


def test_options_win_over_variables_and_variables_over_defaults() -> None:
    assert read().heartbeat_seconds == 20.0
    assert read(POTLUCK_PROVIDER_HEARTBEAT_SECONDS="0.5").heartbeat_seconds == 0.5
    both = read({"heartbeat_seconds": 3}, POTLUCK_PROVIDER_HEARTBEAT_SECONDS="0.5")
    assert both.heartbeat_seconds == 3


def test_a_limit_of_silence_is_at_least_three_heartbeats() -> None:
    assert read({"stop_after_silence_seconds": 60}).stop_after_silence_seconds == 60
    with pytest.raises(BadSettings, match="heartbeats are only sent every 20 s") as error_info:
        read({"stop_after_silence_seconds": 59})
    assert error_info.value.hint == "Allow at least three of them, 60 s."


def test_no_variable_overrides_the_named_server() -> None:
    settings = read(POTLUCK_PROVIDER_URL="http://127.0.0.1:1", POTLUCK_PROVIDER_CA_FILE="/a/ca.pem")
    assert (settings.url, settings.ca_file) == (URL, None)


def test_permissions_of_installations_are_settings_of_the_owner() -> None:
    settings = read(
        POTLUCK_PROVIDER_ALLOW_BUILDS="true",
        POTLUCK_PROVIDER_INDEX_HOSTS="files.example",
        POTLUCK_PROVIDER_ENVIRONMENTS_BYTES="1000",
    )
    assert (settings.allow_builds, settings.index_hosts, settings.environments_bytes) == (
        True,
        "files.example",
        1000,
    )


def test_labels_and_sharing_reach_the_offer() -> None:
    settings = read(
        {"labels": ["region=eu", "rack=7"]},
        POTLUCK_PROVIDER_LABELS="not=this",
        POTLUCK_PROVIDER_SHARE_BETWEEN_ACCOUNTS="true",
    )
    card = DeviceDescription(DeviceKind.GPU, "GPU-1", "NVIDIA", "RTX 4090", 2**30)
    offered = offered_by(settings, card)
    assert offered.labels == ("region=eu", "rack=7")
    assert offered.devices[0].terms.shares_accounts
    assert read(POTLUCK_PROVIDER_LABELS="a=1, b").labels == ("a=1", "b")
    assert not offered_by(read(), card).devices[0].terms.shares_accounts


def offered_by(settings: ProviderSettings, card: DeviceDescription) -> NodeDescription:
    rules = OwnerRules(Path("/nowhere/provider.toml"), settings)
    rules.know((card,))
    report = SandboxReport("bwrap", "watchdog", "watchdog")
    return describe_node(settings, (card,), report, rules, OfferedDisk(2**30))


def test_the_data_directory_is_named_in_three_ways(tmp_path: Path) -> None:
    assert read(POTLUCK_DATA_DIR=str(tmp_path)).data_directory == tmp_path / "provider"
    settings = read({"data_directory": str(tmp_path)}, POTLUCK_DATA_DIR="/elsewhere")
    assert settings.data_directory == tmp_path / "provider"
    assert read().data_directory.is_absolute()


BAD = [
    ({"cores": 0}, {}, "--cores"),
    ({"memory_bytes": 5}, {}, "--ram"),
    ({"name": "two\nlines"}, {}, "--name"),
    ({}, {"POTLUCK_PROVIDER_POLL_SECONDS": "soon"}, "POTLUCK_PROVIDER_POLL_SECONDS"),
    ({}, {"POTLUCK_PROVIDER_POLL_SECONDS": "61"}, "POTLUCK_PROVIDER_POLL_SECONDS"),
    ({}, {"POTLUCK_PROVIDER_BACK_OFF_FIRST_SECONDS": "nan"}, "BACK_OFF_FIRST_SECONDS"),
    ({}, {"POTLUCK_PROVIDER_UNSAFE_NO_SANDBOX": "perhaps"}, "UNSAFE_NO_SANDBOX"),
]


@pytest.mark.parametrize(("options", "variables", "source_name"), BAD)
def test_invalid_values_are_refused_by_the_name_of_their_source(
    options: dict[str, Any], variables: dict[str, str], source_name: str
) -> None:
    with pytest.raises(BadSettings, match=source_name):
        read(options, **variables)


def test_one_provider_at_a_time_in_a_data_directory(tmp_path: Path) -> None:
    with (
        lock_directory(tmp_path / "data"),
        pytest.raises(DataDirectoryInUse) as error_info,
        lock_directory(tmp_path / "data"),
    ):
        pass
    assert "--data-dir" in error_info.value.hint
    with lock_directory(tmp_path / "data"):
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_an_unusable_data_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(BadSettings, match="Not a directory"),
        lock_directory(tmp_path / "file" / "data"),
    ):
        pass


def test_each_server_has_given_its_own_node_id(tmp_path: Path) -> None:
    first_id, other = new_node_id(), new_node_id()
    assert load_node_id(tmp_path, URL) is None
    save_node_id(tmp_path, URL, first_id)
    save_node_id(tmp_path, "http://other:8470", other)
    assert load_node_id(tmp_path, URL) == first_id
    assert load_node_id(tmp_path, "http://other:8470") == other


@pytest.mark.parametrize("content", ["{", "[]", '{"http://127.0.0.1:8470": "no id"}', ""])
def test_a_damaged_node_file_costs_only_the_id(tmp_path: Path, content: str) -> None:
    (tmp_path / "node.json").write_text(content)
    assert load_node_id(tmp_path, URL) is None


def test_data_of_different_servers_is_kept_apart(tmp_path: Path) -> None:
    addresses = (URL, "http://127.0.0.1:8471", "http://127.0.0.1/8470", "http://127.0.0.1-8470")
    assert len({attempts_directory(tmp_path, address) for address in addresses}) == 4
