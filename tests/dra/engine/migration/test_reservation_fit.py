"""Reservations that users supply: those that suit the replacement are used."""

import pytest

from tests.dra.engine.migration.stages import FORBIDDEN, outcome, supplied
from tests.dra.engine.migration.world import NEW_NODE, NOON, OLD_NODE, World, job, pod, reservation, timestamp
from tests.violations import for_each_case


@for_each_case(
    [
        pytest.param(reservation(node=OLD_NODE), 'is on node "node-0", where the Pod runs already', id="same-node"),
        pytest.param(reservation(node=NEW_NODE, owners=["x"]), "is already bound by another Pod", id="used"),
        pytest.param(reservation(node=NEW_NODE, phase="Succeeded"), "is already bound by another Pod", id="used-up"),
        pytest.param(reservation(node=NEW_NODE, cpu="500m"), "Insufficient cpu", id="too-small"),
        pytest.param(reservation(cpu="500m"), "Insufficient cpu", id="too-small-without-a-node"),
        pytest.param(
            reservation(node=NEW_NODE, spec={"owners": [{"object": {"uid": "uid-web-a"}}]}),
            "runs on node",
            id="owner-is-the-pod-itself",
        ),
        pytest.param(
            reservation(node=NEW_NODE, spec={"owners": [{"object": {"name": "web-a"}}]}),
            "has no owner that matches the pod",
            id="owner-by-a-name-that-the-replacement-will-not-have",
        ),
        pytest.param(
            reservation(node=NEW_NODE, spec={"owners": [{"controller": {"name": "web-1", "namespace": "elsewhere"}}]}),
            "has no owner that matches the pod",
            id="owner-in-another-namespace",
        ),
        pytest.param(reservation(node=NEW_NODE, spec={"unschedulable": True}), "is unschedulable", id="unschedulable"),
        pytest.param(
            reservation(node=NEW_NODE, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}),
            "had untolerated taint {k: }",
            id="tainted",
        ),
    ]
)
def test_a_supplied_reservation_that_the_replacement_cannot_use_is_refused_and_stays(kept, text):
    world = World(job=job(**supplied()), reservations=[kept])
    assert outcome(world) == FORBIDDEN
    assert text in world.status["message"]
    assert (list(world.reservations), world.evictions) == (["kept"], [])


@pytest.mark.parametrize(
    ("kept", "wanted"),
    [
        pytest.param(reservation(node=NEW_NODE, phase="Failed"), "ReservationExpired", id="expired"),
        pytest.param(
            reservation(node=NEW_NODE, metadata={"deletionTimestamp": timestamp(NOON)}),
            "MissingReservation",
            id="being-deleted",
        ),
    ],
)
def test_a_supplied_reservation_that_has_ended_fails_the_job(kept, wanted):
    world = World(job=job(**supplied()), reservations=[kept])
    assert outcome(world) == ("Failed", wanted)
    assert list(world.reservations) == ["kept"]


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(reservation(node=NEW_NODE), id="of-the-same-size"),
        pytest.param(reservation(node=NEW_NODE, cpu="2"), id="larger"),
        pytest.param(reservation(node=NEW_NODE, spec={"allocateOnce": False}), id="for-several-pods"),
        pytest.param(
            reservation(node=NEW_NODE, spec={"owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}]}),
            id="owners-by-labels",
        ),
    ],
)
def test_a_supplied_reservation_that_suits_the_replacement_is_used(kept):
    world = World(job=job(**supplied()), reservations=[kept])
    world.settle()
    assert [each.reservation for each in world.evictions] == ["kept"]
    assert list(world.reservations) == ["kept"]


def test_a_pod_that_ignores_reservations_leaves_a_supplied_one_alone():
    ignoring = pod(metadata={"labels": {"scheduling.koordinator.sh/reservation-ignored": "true"}})
    world = World(job=job(**supplied()), reservations=[reservation(node=NEW_NODE)], pods=[ignoring])
    assert outcome(world) == FORBIDDEN
    assert (list(world.reservations), world.evictions) == (["kept"], [])


def test_the_replacement_of_a_stateful_pod_keeps_its_name():
    controller = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web", "controller": True}
    kept = reservation(node=NEW_NODE, spec={"owners": [{"object": {"name": "web-a", "namespace": "default"}}]})
    world = World(job=job(**supplied()), reservations=[kept], pods=[pod(controller=controller)])
    world.settle()
    assert len(world.evictions) == 1
