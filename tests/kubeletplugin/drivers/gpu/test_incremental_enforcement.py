"""What a driver keeps from call to call never differs from what a new one computes from the files of the node."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeletplugin.contract import OpaqueParameters, PrepareError
from kubeletplugin.drivers.gpu import device_names
from kubeletplugin.drivers.gpu.device_names import DEVICE_NAMES_FILE
from tests.kubeletplugin.drivers.gpu.gpu_nodes import GpuNode, published

SLOTS = tuple(f"0000:{number:02x}:00.0" for number in (0x17, 0x65, 0xB1))
WRITE = device_names.write_atomically
UUIDS = tuple(f"GPU-{letter * 4}" for letter in "abcd")
HARDWARE = st.builds(
    lambda slots, uuids, count: dict(zip(slots[:count], uuids, strict=False)),
    st.permutations(SLOTS),
    st.permutations(UUIDS),
    st.integers(0, len(SLOTS)),
)
CLAIMS = st.lists(st.sampled_from("pqr"), min_size=1, max_size=3, unique=True)
INTERVALS = st.sampled_from(["Default", "Short", "Long"])
STEPS = st.one_of(
    st.tuples(st.just("load"), HARDWARE),
    st.tuples(st.just("prepare"), CLAIMS),
    st.tuples(st.just("unprepare"), CLAIMS),
    st.tuples(st.sampled_from(["forget names", "another instance", "fill", "empty", "look"]), st.none()),
)


def configuration(interval):
    parameters = {
        "apiVersion": "reserve.dra/v1alpha1",
        "kind": "GpuConfig",
        "sharing": {"timeSlicingConfig": {"interval": interval}},
    }
    return (OpaqueParameters(requests=(), parameters=parameters),)


class DiskFullError(OSError):
    """The names of GPUs cannot be written."""


async def enforce(driver, claims):
    """Return whether a driver could enforce claims, what it publishes then, and the time slices."""
    try:
        await driver.enforce(claims)
        done = True
    except PrepareError:
        done = False
    return done, published(driver), driver._time_slicing.set


async def take(step, argument, *, machine, plugin, patch):
    requests = machine.node.claims.requests
    match step:
        case "load":
            machine.load(cards=argument)
        case "prepare":
            await plugin.prepare([requests[f"uid-{name}"].claim for name in argument])
        case "unprepare":
            await plugin.unprepare([requests[f"uid-{name}"].claim for name in argument])
        case "forget names" if device_names.write_atomically is WRITE:
            (machine.node.own / DEVICE_NAMES_FILE).unlink(missing_ok=True)
        case "another instance":
            await machine.instance().recover()
        case "fill":  # without the file, only a running process knows the names: no removal while the disk is full
            patch(full=True)
        case "empty":
            patch(full=False)


async def compare_throughout(machine, *, intervals, steps, patch):
    for number, (name, interval) in enumerate(zip("pqr", intervals, strict=True)):
        machine.node.claims.allocate(name, f"gpu-{number}", configuration=configuration(interval))
    driver = machine.driver()
    plugin = machine.instance(driver)
    await plugin.recover()
    for step, argument in steps:
        await take(step, argument, machine=machine, plugin=plugin, patch=patch)
        await driver.refresh()
        kept = await enforce(driver, plugin.prepared_claims)
        assert await enforce(machine.driver(), plugin.prepared_claims) == kept


@settings(max_examples=20)
@given(
    intervals=st.tuples(INTERVALS, INTERVALS, INTERVALS),
    cards=HARDWARE,
    steps=st.lists(STEPS, max_size=8),
)
def test_enforcing_on_is_as_enforcing_anew(intervals, cards, steps):
    def refuse(*_, **__):
        raise DiskFullError(28, "No space left on device")

    def patch(*, full):
        device_names.write_atomically = refuse if full else WRITE

    try:
        with tempfile.TemporaryDirectory() as folder:
            machine = GpuNode(Path(folder), cards=cards).boot()
            asyncio.run(compare_throughout(machine, intervals=intervals, steps=steps, patch=patch))
    finally:
        device_names.write_atomically = WRITE
