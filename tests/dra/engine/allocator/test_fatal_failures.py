"""Where the allocator may fail fatally is found without a search, and never overlooked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.allocator import AllocationFailure, FatalFailures, allocate
from tests.allocator import cases, judge
from tests.dra.engine.allocator.strategies import NODE, device, exactly, first_of, inventory, slice_of, wanted
from tests.dra.engine.allocator.tables import DRIVER, cel

BOLD = cel(f'device.attributes["{DRIVER}"].color == "red"')
"""Fails on devices without a color."""


@pytest.mark.parametrize(
    ("claims", "slices", "possible"),
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
        pytest.param([wanted(exactly(count=None))], [slice_of(device("d"))], True, id="all-devices"),
        pytest.param([wanted(exactly(selectors=BOLD))], [slice_of(device("d"), node_name="n2")], False, id="elsewhere"),
    ],
)
def test_where_a_fatal_failure_is_possible(claims, slices, possible):
    assert FatalFailures().are_possible(claims, inventory(*slices).node_devices(NODE, {})) is possible


def test_the_answer_follows_the_devices_of_the_node():
    found, failures, claims = inventory(slice_of(device("d"))), FatalFailures(), [wanted(exactly(selectors=BOLD))]
    assert failures.are_possible(claims, found.node_devices(NODE, {}))
    found.observe(slice_of(device("d", color="red")))
    assert not failures.are_possible(claims, found.node_devices(NODE, {}))


@given(seed=st.integers(0, 10_000))
def test_no_fatal_failure_is_overlooked(seed):
    prepared = judge.prepared(cases.question(seed))
    if prepared is None:
        return
    claims, offer, held, shares = prepared
    found = allocate(claims, node_devices=offer, ledger=held, consumed_capacity=shares, allow_binding_conditions=True)
    if isinstance(found, AllocationFailure) and found.fatal:
        assert FatalFailures().are_possible(claims, offer)
