"""Pods without a node: which reservations may admit each, and whose scheduling gate is to be checked."""

import msgspec
import pytest

from dra.engine.instants import NEVER
from dra.engine.reservations.pending_pods import PendingPods
from dra.model.meta import Uid
from dra.model.scheduling import SchedulerPod
from tests.dra.engine.reservations.examples import available

GATED = {"schedulingGates": [{"name": "reserve.dra/reservation"}]}


def pod(uid="uid-p", **spec):
    content = {
        "metadata": {"namespace": "default", "name": uid.removeprefix("uid-"), "uid": uid, "labels": {"app": "a"}},
        "spec": spec,
        "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]},
    }
    return msgspec.convert(content, SchedulerPod)


def test_pods_that_apply_are_told_with_all_reservations_that_they_may_enter():
    pending = PendingPods()
    for uid in ("uid-r", "uid-other"):
        reservation = available(uid=uid, owners=[{"labelSelector": {"matchLabels": {"app": "a"}}}])
        pending.observe_reservation(Uid(uid), reservation)
    pending.observe(pod())
    ((candidate, info, reservations),) = pending.candidate_pods(Uid("uid-r"))
    assert (candidate, info.uid, set(reservations)) == (pod(), "uid-p", {"uid-r", "uid-other"})


@pytest.mark.parametrize(
    ("spec", "checked"),
    [
        pytest.param(GATED, ["uid-p"], id="gated"),
        pytest.param({}, [], id="no-gate"),
        pytest.param({"schedulingGates": [{"name": "example.com/quota"}]}, [], id="another-gate"),
        pytest.param({**GATED, "nodeName": "n"}, [], id="bound"),
    ],
)
def test_the_gate_of_a_new_pod_is_checked(spec, checked):
    pending = PendingPods()
    pending.observe(pod(**spec))
    assert list(pending.dirty) == checked


def test_all_gates_are_checked_in_the_order_of_the_pods():
    pending = PendingPods()
    for uid in ("uid-b", "uid-a"):
        pending.observe(pod(uid, **GATED))
    pending.observe(pod("uid-c"))
    pending.dirty.clear()
    pending.mark_all_dirty()
    assert list(pending.dirty) == ["uid-b", "uid-a"]
    assert [pending.gated_pod(Uid(uid)) is not None for uid in ("uid-a", "uid-c", "uid-unknown")] == [
        True,
        False,
        False,
    ]


def test_a_pod_whose_gate_could_not_be_removed_waits_whatever_marks_it():
    pending = PendingPods()
    pending.observe(pod(**GATED))
    assert pending.dirty.take() == {"uid-p": -NEVER}
    pending.postpone(Uid("uid-p"), until=5.0)
    pending.mark_all_dirty()
    pending.observe(pod(**GATED))
    assert pending.dirty.take() == {"uid-p": 5.0}
    pending.observe(pod())
    pending.mark_all_dirty()
    assert not pending.dirty
    pending.observe(pod(**GATED))
    assert pending.dirty.take() == {"uid-p": -NEVER}, "another gate, another try"
    pending.forget(Uid("uid-p"))
    pending.postpone(Uid("uid-p"), until=9.0)
    pending.mark_all_dirty()
    assert not pending.dirty
