"""What devices have computed and taken, from what is seen of them now and then."""

from msgspec.structs import replace

from potluck.provider.attempt.usage_meter import DeviceMeter, DeviceSpent, DeviceUsage
from potluck.provider.detect.types import Sample
from potluck.wire.provider import GrantedDevice
from tests.provider.builders import a_grant


def test_device_usage_is_counted_between_samples() -> None:
    usage = DeviceUsage()
    usage.note(Sample(utilisation_percent=50.0, power_watts=100.0), 10.0)
    before = usage.read(10.0)
    assert usage.read(12.0).since(before) == DeviceSpent(1.0, 200.0), "what was seen holds on"
    usage.note(Sample(utilisation_percent=100.0, power_watts=200.0), 14.0)
    assert usage.read(15.0).since(before) == DeviceSpent(5.0, 1000.0), "as busy as it says it was"


def test_a_look_does_not_stand_for_ever_and_a_clock_never_goes_back() -> None:
    usage = DeviceUsage()
    usage.note(Sample(utilisation_percent=100.0), 0.0)
    assert usage.read(1e6) == DeviceSpent(60.0, None)
    assert usage.read(-5.0) == DeviceSpent(0.0, None)
    later, early = usage.read(9.0), usage.read(8.0)
    assert early.since(later) == DeviceSpent(0.0, None)


def test_usage_of_an_attempt_counts_reporting_devices() -> None:
    spent = {"one": DeviceSpent(10.0, 500.0), "two": DeviceSpent(4.0, None)}
    (device,) = a_grant().devices
    devices: list[GrantedDevice] = [
        replace(device, uuid="one", milli=500),
        replace(device, uuid="two", milli=1000),
    ]
    meter = DeviceMeter(lambda uuid: spent[uuid], devices)
    assert meter.spent() == DeviceSpent(0.0, 0.0)
    spent |= {"one": DeviceSpent(14.0, 700.0), "two": DeviceSpent(5.0, None)}
    assert meter.spent() == DeviceSpent(3.0, 100.0)
    assert DeviceMeter(lambda _: DeviceSpent(), devices).spent() == DeviceSpent(0.0, None)
