"""What cannot be meant is refused with a sentence, whoever says it."""

from typing import Any

import pytest
from msgspec.structs import replace

from potluck.model.device import DeviceDescription
from potluck.model.error import InvalidInput
from potluck.model.terms import DeviceTerms, TermsChange
from potluck.server.flow.lease.check_offer import check_change, check_offer
from potluck.wire.provider import RegisterNode
from tests.server.flow.pool import description

WALLET = "0x52908400098527886E0F7030069857D2E4169EE7"
MIXED = "0x52908400098527886E0F7030069857D2E4169Ee7"


def offer(*devices: DeviceDescription) -> RegisterNode:
    return RegisterNode(replace(description(2), devices=devices))


def card(uuid: str = "GPU-a", **changes: Any) -> DeviceDescription:
    (device,) = description(1).devices
    return replace(device, uuid=uuid, **changes)


@pytest.mark.parametrize(
    ("devices", "sentence"),
    [
        ((card(), card()), "same uuid"),
        ((card("GPU-A"), card("gpu-a")), "same uuid"),
        ((card(), card("MIG-1", parent_uuid="gpu-A")), "MIG-1 is a part of gpu-A"),
        ((card(terms=DeviceTerms(hours="whenever")),), "hours"),
        ((card(terms=DeviceTerms(allow=(MIXED,))),), "checksum"),
        ((card(terms=DeviceTerms(deny=(WALLET, MIXED))),), "checksum"),
    ],
)
def test_invalid_offers_are_refused(devices: tuple[DeviceDescription, ...], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as error_info:
        check_offer(offer(*devices))
    assert error_info.value.hint


def test_the_names_of_a_node_are_bounded_as_a_whole() -> None:
    """Each device may name as many, if they are the same."""
    denied, others = (
        tuple(f"0x{number:040}" for number in range(start, start + 600)) for start in (0, 600)
    )
    cards = [card(f"GPU-{number}", terms=DeviceTerms(deny=denied)) for number in range(2)]
    assert len(check_offer(offer(*cards)).description.devices) == 2
    with pytest.raises(InvalidInput, match="name 1,200 wallets"):
        check_offer(offer(*cards, card("GPU-x", terms=DeviceTerms(allow=others))))


def test_wallets_have_one_spelling() -> None:
    terms = DeviceTerms(allow=(WALLET.lower(), WALLET, "0x" + WALLET[2:].upper()))
    (device,) = check_offer(offer(card(terms=terms))).description.devices
    assert device.terms.allow == (WALLET,)
    assert check_change(TermsChange(deny=(WALLET.lower(),))).deny == (WALLET,)


def test_a_card_may_be_offered_in_parts() -> None:
    parts = [card(f"MIG-{number}", parent_uuid="GPU-a") for number in range(2)]
    assert check_offer(offer(*parts)).description.devices == tuple(parts)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (TermsChange(), "changes nothing"),
        (TermsChange(devices=("GPU-a",)), "changes nothing"),
        (TermsChange(devices=("GPU-a",), cores=3, sandbox="bwrap"), "cores, sandbox cannot be set"),
        (TermsChange(hours="25:00-26:00"), "25:00"),
        (TermsChange(allow=(MIXED,)), "checksum"),
        (TermsChange(sandbox="firejail"), "no sandbox 'firejail'"),
        (TermsChange(sandbox="none"), "cannot be disabled remotely"),
        (TermsChange(sandbox=None), "cannot be disabled remotely"),
        (TermsChange(images=("*",)), "cannot be changed remotely"),
        (TermsChange(pulls_images=True), "cannot be changed remotely"),
        (TermsChange(devices=("GPU-a",), has_containers=False), "has_containers cannot be set"),
    ],
)
def test_invalid_changes_are_refused(change: TermsChange, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        check_change(change)
