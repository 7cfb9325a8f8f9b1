"""The page remembers who held a device, and not more than it should."""

from datetime import UTC, datetime

import msgspec

from dra.cli.page.past_holders import DEVICES_MAX, HOLDERS_MAX, PastHolders
from dra.engine.devices.ledger import DeviceID
from dra.engine.diagnosis.devices import DeviceUsage

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def usage(*holders, device="gpu-0"):
    item = DeviceID(driver="gpu.example.com", pool="n1", device=device)
    return DeviceUsage(item=item, node="n1", holders=holders, taints=(), offered=True, consumers=0, known=True)


def test_only_claims_that_no_longer_hold_the_device_are_past_the_latest_first():
    past = PastHolders()
    past.observe(usage(("ml", "a")), usage(("ml", "a"), ("ml", "b")), now=NOON)
    assert [*past.texts("gpu.example.com/n1/gpu-0")] == []
    past.observe(usage(("ml", "a"), ("ml", "b")), usage(("ml", "b")), now=NOON)
    past.observe(usage(("ml", "b")), None, now=NOON.replace(hour=13))
    assert [*past.texts("gpu.example.com/n1/gpu-0")] == [
        "claim ml/b, until 2026-11-20T13:00:00Z",
        "claim ml/a, until 2026-11-20T12:00:00Z",
    ]


def test_what_is_remembered_has_a_bound():
    past = PastHolders()
    for number in range(HOLDERS_MAX + 5):
        past.observe(usage(("ml", f"c{number}")), usage(), now=NOON)
    assert len([*past.texts("gpu.example.com/n1/gpu-0")]) == HOLDERS_MAX
    for number in range(DEVICES_MAX):
        past.observe(msgspec.structs.replace(usage(("ml", "a"), device=f"gpu-{number + 1}")), None, now=NOON)
    assert [*past.texts("gpu.example.com/n1/gpu-0")] == []
