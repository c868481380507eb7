"""What is sealed opens in its own place, with its own key, unchanged; and nowhere else."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.model.error import BadSettings, Unavailable, Unopenable
from potluck.store.sealing.vault import GivenKeys, KeyRing, Vault, key_id, new_key, sealed_with

KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
PLACE = ("tasks", "sealed_spec", "task_1")


def vault(*keys: bytes) -> Vault:
    return Vault(GivenKeys("the test", KeyRing(keys)))


@given(
    plain=st.binary(max_size=4096),
    row=st.text(max_size=40),
    keys=st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=4, unique=True),
)
def test_sealed_values_can_be_opened(plain: bytes, row: str, keys: list[bytes]) -> None:
    sealed = vault(*keys).seal("tasks", "sealed_spec", row, plain)
    assert vault(*reversed(keys)).open("tasks", "sealed_spec", row, sealed) == plain
    assert sealed_with(sealed) == key_id(keys[0]), "the first key seals"
    assert len(sealed) == 1 + 4 + 12 + len(plain) + 16


@given(plain=st.binary(min_size=8, max_size=200))
def test_sealed_data_hides_the_plain_text_and_is_never_equal(plain: bytes) -> None:
    sealer = vault(KEY)
    first, second = sealer.seal(*PLACE, plain), sealer.seal(*PLACE, plain)
    assert plain not in first and first != second


@given(
    place=st.tuples(*[st.sampled_from(["tasks", "sealed_spec", "a", "b", "task_1", ""])] * 3),
    other=st.tuples(*[st.sampled_from(["tasks", "sealed_spec", "a", "b", "task_1", ""])] * 3),
)
def test_sealed_data_opens_in_its_own_place_only(
    place: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    sealed = vault(KEY).seal(*place, b"plain")
    if place == other:
        assert vault(KEY).open(*other, sealed) == b"plain"
        return
    with pytest.raises(Unopenable):
        vault(KEY).open(*other, sealed)


def test_every_changed_bit_is_noticed() -> None:
    sealer = vault(KEY, OTHER_KEY)
    sealed = sealer.seal(*PLACE, b"the task's secret")
    for place in range(len(sealed)):
        for bit in range(8):
            changed = bytearray(sealed)
            changed[place] ^= 1 << bit
            with pytest.raises(Unopenable):
                sealer.open(*PLACE, bytes(changed))


def test_every_missing_end_is_noticed() -> None:
    sealer = vault(KEY)
    sealed = sealer.seal(*PLACE, b"the task's secret")
    for length in range(len(sealed)):
        with pytest.raises(Unopenable):
            sealer.open(*PLACE, sealed[:length])


def test_another_key_of_the_ring_in_front_does_not_help() -> None:
    sealer = vault(KEY, OTHER_KEY)
    sealed = sealer.seal(*PLACE, b"plain")
    with pytest.raises(Unopenable):
        sealer.open(*PLACE, sealed[:1] + key_id(OTHER_KEY) + sealed[5:])


def test_a_key_that_is_gone_is_named_by_its_id() -> None:
    sealed = vault(KEY).seal(*PLACE, b"plain")
    with pytest.raises(Unopenable, match=key_id(KEY).hex()) as error_info:
        vault(OTHER_KEY).open(*PLACE, sealed)
    assert "the test" in error_info.value.detail, "and the place that should have it"


def test_a_ring_does_not_show_its_keys() -> None:
    ring_text = repr(KeyRing([KEY, OTHER_KEY]))
    assert ring_text == f"KeyRing({key_id(KEY).hex()}, {key_id(OTHER_KEY).hex()})"


class MovingKeys:
    """A place whose keys change while the vault lives."""

    name = "the test"

    def __init__(self) -> None:
        self.keys = [KEY]
        self.is_changed = False

    def read(self) -> KeyRing:
        self.is_changed = False
        return KeyRing(self.keys)

    def has_changed(self) -> bool:
        return self.is_changed


def test_a_vault_takes_a_new_key_when_it_meets_what_it_sealed() -> None:
    place = MovingKeys()
    late_vault = Vault(place)
    place.keys = [OTHER_KEY, KEY]
    sealed = vault(OTHER_KEY).seal(*PLACE, b"plain")
    assert late_vault.open(*PLACE, sealed) == b"plain"
    assert late_vault.key_id == key_id(OTHER_KEY).hex()


class LockedKeys(MovingKeys):
    """A place that cannot be looked at any more."""

    def read(self) -> KeyRing:
        if self.is_changed:
            raise BadSettings("no entry")
        return super().read()


def test_an_unverifiable_key_is_not_reported_as_missing() -> None:
    place = LockedKeys()
    late_vault = Vault(place)
    place.is_changed = True
    with pytest.raises(Unavailable):
        late_vault.open(*PLACE, vault(OTHER_KEY).seal(*PLACE, b"plain"))
    assert late_vault.open(*PLACE, late_vault.seal(*PLACE, b"plain")) == b"plain", (
        "what works goes on"
    )


def test_a_vault_seals_with_the_new_key_as_soon_as_there_is_one() -> None:
    place = MovingKeys()
    late_vault = Vault(place)
    place.keys, place.is_changed = [OTHER_KEY, KEY], True
    assert sealed_with(late_vault.seal(*PLACE, b"plain")) == key_id(OTHER_KEY)


def test_a_new_key_has_an_id_of_its_own() -> None:
    ring = KeyRing([KEY])
    assert key_id(new_key(ring)) not in ring.ids


def test_sealing_costs_less_than_a_tenth_of_a_millisecond() -> None:
    """A task with a script of 4 KiB; the best of many rounds, since the machine is shared."""
    sealer, plain = vault(KEY), b"x" * 4096
    durations = []
    for _ in range(500):
        started = time.perf_counter()
        sealer.open(*PLACE, sealer.seal(*PLACE, plain))
        durations.append(time.perf_counter() - started)
    assert sorted(durations)[len(durations) // 2] < 0.000_1
