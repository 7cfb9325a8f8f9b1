"""The node reservation that is in force while an annotation is unreadable, and what is stored of it."""

import json

import msgspec
import pytest

from dra.api.reservations.well_known import ANNOTATION_NODE_RESERVATION
from dra.engine.scheduling.node_reservations import NodeReservations
from dra.model.scheduling import SchedulerNode
from tests.dra.engine.reservations.examples import of
from tests.violations import for_each_case

TWO, THREE, TYPO = (json.dumps({"resources": {"cpu": cpu}}) for cpu in ("2", "3", "three"))


def node(annotation=None, *, cpu="8"):
    metadata = {"name": "n1", "uid": "n"}
    if annotation is not None:
        metadata["annotations"] = {ANNOTATION_NODE_RESERVATION: annotation}
    allocatable = {"cpu": cpu} if cpu else {}
    return msgspec.convert({"metadata": metadata, "status": {"allocatable": allocatable}}, SchedulerNode)


@for_each_case(
    [
        pytest.param({}, [node(TWO)], 6, {}, id="valid"),
        pytest.param({}, [node(TWO), node(TYPO)], 6, {"n1": TWO}, id="unreadable-after-valid"),
        pytest.param({}, [node(), node(TYPO)], 8, {"n1": ""}, id="unreadable-after-none"),
        pytest.param({}, [node(TWO), node(TYPO), node(THREE)], 5, {}, id="valid-again"),
        pytest.param({}, [node(TYPO)], 8, {}, id="never-valid"),
        pytest.param({"n1": TWO}, [node(TYPO)], 6, {"n1": TWO}, id="restored"),
        pytest.param({"n1": ""}, [node(TYPO)], 8, {"n1": ""}, id="restored-without-annotation"),
        pytest.param({"n1": TWO}, [node(THREE), node(TYPO)], 5, {"n1": THREE}, id="valid-since-restored"),
        pytest.param({"n1": TYPO}, [node(TYPO)], 8, {}, id="malformed-in-store"),
        pytest.param({}, [node(TWO), node(THREE, cpu=""), node(TYPO)], 6, {"n1": TWO}, id="not-reported-yet"),
    ]
)
def test_the_last_valid_annotation_counts_and_is_stored_while_it_is_needed(stored, seen, cpus, to_store):
    reservations = NodeReservations()
    reservations.restore(stored)
    for each in seen:
        amounts = reservations.observe(each)
    assert amounts == of(cpus)
    assert reservations.annotations_to_store() == to_store
    assert bool(reservations.errors) == (seen[-1] == node(TYPO))


@pytest.mark.parametrize(
    ("seen", "dirty"),
    [
        pytest.param([node(TWO), node(TYPO)], True, id="unreadable"),
        pytest.param([node(TWO), node(TYPO), node(TWO)], True, id="valid-again"),
        pytest.param([node(TWO), node(THREE)], False, id="valid"),
        pytest.param([node(TWO), node(TYPO), node(TYPO)], False, id="still-unreadable"),
        pytest.param([node(TYPO)], False, id="never-valid"),
    ],
)
def test_there_is_something_to_write_only_when_a_node_begins_or_ceases_to_need_it(seen, dirty):
    reservations = NodeReservations()
    for each in seen[:-1]:
        reservations.observe(each)
    reservations.discard_dirty()
    reservations.observe(seen[-1])
    assert bool(reservations.dirty) is dirty


def test_a_deleted_node_leaves_nothing_to_a_node_of_its_name():
    reservations = NodeReservations()
    reservations.restore({"n1": TWO})
    reservations.observe(node(TYPO))
    reservations.discard_dirty()
    reservations.forget("n1")
    assert reservations.dirty
    assert reservations.observe(node(TYPO)) == of(8)


def test_a_malformed_stored_annotation_is_reported_by_node():
    assert NodeReservations().restore({"n1": TYPO, "n2": TWO, "n3": ""}).keys() == {"n1"}


@pytest.mark.parametrize(
    ("stored", "wanted", "changes"),
    [
        pytest.param({}, {}, {}, id="nothing"),
        pytest.param({"n1": TWO}, {"n1": TWO}, {}, id="unchanged"),
        pytest.param({}, {"n1": ""}, {"n1": ""}, id="added"),
        pytest.param({"n1": TWO}, {"n1": THREE}, {"n1": THREE}, id="changed"),
        pytest.param({"n1": TWO, "n2": ""}, {"n2": ""}, {"n1": None}, id="removed"),
    ],
)
def test_only_what_differs_from_the_store_is_written(stored, wanted, changes):
    reservations = NodeReservations()
    reservations.restore(stored)
    assert reservations.changes(wanted) == changes
    reservations.mark_stored(wanted)
    assert reservations.changes(wanted) == {}
