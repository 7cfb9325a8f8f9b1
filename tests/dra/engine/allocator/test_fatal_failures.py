"""Where the allocator may fail fatally is found without a search, and never overlooked."""

import pytest

from dra.engine.allocator import AllocationFailure, FatalFailures, allocate
from dra.model.slices import Device
from tests.allocator import cases, judge
from tests.dra.engine.allocator.strategies import NODE, device, exactly, first_of, inventory, slice_of, wanted
from tests.dra.engine.allocator.tables import DRIVER, cel
from tests.violations import for_each_case

CASES = 300

MATCH = [{"matchAttribute": f"{DRIVER}/n"}]
LISTED = Device(name="d", attributes={"n": {"ints": [1, 2]}})

BOLD = cel(f'device.attributes["{DRIVER}"].color == "red"')
"""Fails on devices without a color."""


@for_each_case(
    [
        pytest.param([wanted(exactly())], [slice_of(device("d"))], False, id="one-device"),
        pytest.param([wanted(exactly(selectors=BOLD))], [slice_of(device("d", color="red"))], False, id="selector"),
        pytest.param([wanted(exactly(selectors=BOLD))], [slice_of(device("d"))], True, id="selector-fails"),
        pytest.param(
            [wanted(exactly(), name="a"), wanted(exactly(selectors=BOLD), name="b")],
            [slice_of(device("d"))],
            True,
            id="selector-of-the-second-claim-fails",
        ),
        pytest.param(
            [wanted(first_of("r", exactly("a"), exactly("b", selectors=BOLD)))],
            [slice_of(device("d"))],
            True,
            id="selector-of-an-alternative-fails",
        ),
        pytest.param([wanted(exactly(count=None))], [slice_of(device("d"))], False, id="all-devices"),
        pytest.param([wanted(exactly(), constraints=MATCH)], [slice_of(device("d", n=1))], False, id="constraint"),
        pytest.param([wanted(exactly(), constraints=MATCH)], [slice_of(LISTED)], True, id="constraint-on-a-list"),
        pytest.param([wanted(exactly(count=None))], [slice_of(device("d"), count=2)], True, id="incomplete-pool"),
        pytest.param(
            [wanted(exactly(count=None))],
            [slice_of(*(device(f"d{n}") for n in range(33)))],
            True,
            id="more-devices-than-a-claim-can-have",
        ),
        pytest.param([wanted(exactly(selectors=BOLD))], [slice_of(device("d"), node_name="n2")], False, id="elsewhere"),
    ]
)
def test_where_a_fatal_failure_is_possible(claims, slices, possible):
    assert FatalFailures().are_possible(claims, inventory(*slices).node_devices(NODE, {})) is possible


def test_the_answer_follows_the_devices_of_the_node():
    found, failures, claims = inventory(slice_of(device("d"))), FatalFailures(), [wanted(exactly(selectors=BOLD))]
    assert failures.are_possible(claims, found.node_devices(NODE, {}))
    found.observe(slice_of(device("d", color="red")))
    assert not failures.are_possible(claims, found.node_devices(NODE, {}))


def test_no_fatal_failure_is_overlooked(monkeypatch):
    fatal = []

    def spy(claims, *, node_devices, **how):
        found = allocate(claims, node_devices=node_devices, **how)
        if isinstance(found, AllocationFailure) and found.fatal:
            fatal.append(FatalFailures().are_possible(claims, node_devices))
        return found

    monkeypatch.setattr(judge, "allocate", spy)
    for seed in range(CASES):
        judge.ours(cases.question(seed))
    assert all(fatal)
    assert len(fatal) > CASES / 100
