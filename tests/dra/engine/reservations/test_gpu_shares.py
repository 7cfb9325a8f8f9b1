"""Shares of GPUs in the status of a reservation: shown under Koordinator's names, counted on no node."""

import msgspec
import pytest

from dra.api.reservations.model import ReservationPhase
from dra.engine.reservations import reservation_info, statuses
from dra.engine.reservations.pod_info import PodInfo
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.translation.translated_pods import translate, translated_pod
from dra.model.quantities import PODS
from dra.model.scheduling import SchedulerPod
from tests.dra.engine.reservations.examples import NOW, reservation
from tests.dra.engine.translation.examples import container, gpus, pod
from tests.dra.engine.translation.test_aligned_requests import aligned

CORE, MEMORY, RATIO = (f"koordinator.sh/gpu-{name}" for name in ("core", "memory", "memory-ratio"))
ASKED = pod(gpus("a", gpu="50"), gpus("b", core="20", memory="8Gi"))
HELD = {CORE: "70", RATIO: "50", MEMORY: "8Gi"}


def held(given=ASKED, **spec):
    found = reservation(template={"metadata": given["metadata"], "spec": given["spec"]}, **spec)
    status = statuses.bound_status(found, node="n", now=NOW)
    assert status is not None
    assert status.phase is ReservationPhase.AVAILABLE
    return found.model_copy(update={"status": status})


def owner(name="p", given=ASKED):
    made = translated_pod(given, translate(given).entries)
    identity = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return msgspec.convert({**made, "metadata": made["metadata"] | identity}, SchedulerPod)


def with_owners(found, *pods):
    status = statuses.synced_status(found, map(AssignedPod.from_pod, pods), now=NOW)
    return found if status is None else found.model_copy(update={"status": status})


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        pytest.param(ASKED, HELD, id="sums-of-the-containers"),
        pytest.param(pod(gpus(gpu="200")), {CORE: "200", RATIO: "200"}, id="whole-cards"),
        pytest.param(pod(gpus(memory="8Gi")), {MEMORY: "8Gi"}, id="bytes-alone"),
        pytest.param(aligned(pod(gpus("a", gpu="50"), gpus("b", core="20", memory="8Gi"))), HELD, id="one-numa-node"),
        pytest.param(pod(container(cpu="1")), {"cpu": "1"}, id="no-gpus"),
        pytest.param(
            pod(container(cpu="1"), init=(gpus("i", gpu="25"),)),
            {"cpu": "1", CORE: "25", RATIO: "25"},
            id="init-container",
        ),
    ],
)
def test_the_status_shows_the_shares_that_are_held(given, shown):
    assert dict(held(given).status.allocatable) == shown


def test_shares_are_no_amounts_of_a_node():
    info = reservation_info.from_reservation(held())
    assert info.allocatable.keys() == {PODS}
    assert not info.parse_error
    from_status = reservation_info.from_status("r", "u", held().status.model_dump(by_alias=True), parse_error="x")
    assert from_status is not None
    assert from_status.allocatable.keys() == {PODS}


@pytest.mark.parametrize("read", [AssignedPod.from_pod, lambda pod: AssignedPod.from_pod_info(PodInfo.from_pod(pod))])
def test_an_owner_takes_the_shares_of_the_claims_that_it_gets(read):
    found = held(allocateOnce=False)
    status = statuses.status_with_owner(found, read(owner()))
    assert dict(status.allocated) == HELD
    after = statuses.status_without_owner(found.model_copy(update={"status": status}), read(owner()))
    assert dict(after.allocated) == {}


@pytest.mark.parametrize(
    ("owners", "allocated"),
    [
        pytest.param([owner()], HELD, id="one"),
        pytest.param([owner(), owner("q")], HELD, id="an-entry-has-one-taker"),
        pytest.param(
            [owner(given=pod(gpus("a", gpu="50"), gpus("b", gpu="50")))],
            {CORE: "50", RATIO: "50"},
            id="one-entry-differs",
        ),
        pytest.param([owner(given=pod(gpus(gpu="25")))], {}, id="another-shape"),
        pytest.param([], {}, id="nobody"),
    ],
)
def test_only_held_claims_count_as_taken(owners, allocated):
    assert dict(with_owners(held(allocateOnce=False), *owners).status.allocated) == allocated


def test_a_second_owner_takes_no_more_than_is_held():
    found = with_owners(held(allocateOnce=False), owner())
    status = statuses.status_with_owner(found, AssignedPod.from_pod(owner("q")))
    assert dict(status.allocated) == HELD


def test_a_status_of_before_gets_its_shares():
    found = held(allocateOnce=False)
    before = found.model_copy(update={"status": found.status.model_copy(update={"allocatable": {}})})
    assert dict(with_owners(before).status.allocatable) == HELD
    assert statuses.synced_status(with_owners(before), [], now=NOW) is None


@pytest.mark.parametrize(
    ("text", "resized"),
    [
        pytest.param('{"resources":{"cpu":"2"}}', {"cpu": "2", **HELD}, id="others-are-resized"),
        pytest.param('{"resources":{"koordinator.sh/gpu-core":"10"}}', None, id="shares-are-not"),
    ],
)
def test_a_resize_leaves_shares_as_they_are(text, resized):
    found = held(allocateOnce=False)
    annotations = {"scheduling.koordinator.sh/reservation-resize-allocatable": text}
    found = found.model_copy(update={"metadata": found.metadata.model_copy(update={"annotations": annotations})})
    status = statuses.resized_status(found)
    assert (None if status is None else dict(status.allocatable)) == resized
