"""What the extender learns from answers about objects that are not there."""

import pytest

from controller.extender.writer import ExtenderWriter
from dra.engine.reservations.statuses import AssignedPod
from dra.engine.scheduling.scheduler_cache import SchedulerCache
from dra.engine.scheduling.status_updates import AddOwner, WriteRefusedError
from dra.kube.errors import NotFound
from tests.dra.engine.scheduling.examples import NODE, reservation
from tests.dra.kube.scripted import Handling, refusal

NAME = reservation().metadata.name
GONE = refusal(404, "NotFound", f'reservations.scheduling.koordinator.sh "{NAME}" not found', name=NAME)
NOT_SERVED = refusal(404, "NotFound", "the server could not find the requested resource")


@pytest.fixture
def cache():
    known = SchedulerCache()
    known.observe_node(NODE)
    known.observe_reservation(reservation())
    return known


@pytest.fixture
def writer(cache, runtime_of):
    def make(answer):
        return ExtenderWriter(runtime_of(Handling(lambda _: answer)), cache=cache, seconds=5.0)

    return make


@pytest.mark.parametrize(("answer", "kept"), [(GONE, False), (NOT_SERVED, True)], ids=["gone", "not-served"])
@pytest.mark.parametrize("step", ["write", "read"])
async def test_only_an_answer_that_names_a_reservation_frees_what_it_holds(writer, cache, clock, step, answer, kept):
    """While servers of two versions are behind one address, one of them may lack the kind."""
    update = AddOwner(AssignedPod(uid="uid-p", key=("default", "p"), amounts={}))
    deadline = clock.now() + 5.0
    if step == "write":
        with pytest.raises(WriteRefusedError):
            await writer(answer).update_status("uid-r", update, deadline=deadline)
    else:
        known = cache.reservation("uid-r")
        try:
            await writer(answer).read_reservation(known, deadline=deadline)
        except WriteRefusedError:
            assert kept
    assert (cache.reservation("uid-r") is not None) is kept
    assert (cache.accounting.reservation("uid-r") is not None) is kept


async def test_a_pod_is_gone_only_if_the_answer_names_it(writer, clock):
    deadline = clock.now() + 5.0
    gone = refusal(404, "NotFound", 'pods "p" not found', name="p")
    assert await writer(gone).read_pod(("default", "p"), deadline=deadline) is None
    with pytest.raises(NotFound):
        await writer(NOT_SERVED).read_pod(("default", "p"), deadline=deadline)
