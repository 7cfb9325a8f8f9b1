"""Live reads of the objects that claims are reserved for."""

import contextlib

import pytest

from dra.engine.claims.view import WorkloadPhase, WorkloadState
from dra.engine.claims.workload_index import WorkloadKey
from dra.kube.errors import Forbidden, ServerError
from dra.model.meta import ObjectMeta, RawObject, Uid
from dra.model.references import ConsumerReference
from dra.requests.workload_reader import FORBIDDEN_AFTER, FORBIDDEN_FOR, WorkloadReader
from tests.controller.cluster import JOBS, Cluster
from tests.controller.workloads import TRAIN, answer_reads, job, refer, settle
from tests.dra.engine.examples import JOB, NAMESPACE
from tests.dra.kube.scripted import client_of, refusal


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def reader(cluster, world, clock):
    return WorkloadReader(client_of(cluster), cache=world, rules={}, clock=clock)


@pytest.mark.parametrize(
    ("there", "known"),
    [
        pytest.param(None, WorkloadState(phase=WorkloadPhase.UNKNOWN, gone=frozenset({JOB.uid})), id="gone"),
        pytest.param(JOB.uid, WorkloadState(phase=WorkloadPhase.PRESENT, uid=JOB.uid), id="there"),
        pytest.param(
            "second",
            WorkloadState(phase=WorkloadPhase.PRESENT, uid=Uid("second"), gone=frozenset({JOB.uid})),
            id="another-of-that-name",
        ),
    ],
)
async def test_a_live_read_tells_what_became_of_a_uid(cluster, world, reader, there, known):
    refer(cluster, world)
    if there:
        job(cluster, uid=there)
    await reader.look_up(JOB, namespace=NAMESPACE)
    assert world.workloads.get(TRAIN) == known
    assert set(world.dirty) == {(NAMESPACE, "train")}


async def test_an_object_that_cannot_be_decoded_exists(cluster, world, reader):
    refer(cluster, world)
    nested = b'{"a":' * 100_000 + b"0" + b"}" * 100_000
    reader.evaluate(TRAIN, RawObject(metadata=ObjectMeta(name="train", uid=JOB.uid), raw=nested), resource=JOBS)
    state = world.workloads.get(TRAIN)
    assert (state.phase, state.uid, bool(state.rule_error)) == (WorkloadPhase.PRESENT, JOB.uid, True)


@pytest.mark.parametrize(
    ("answer", "phase", "raised"),
    [
        pytest.param(refusal(403, "Forbidden"), WorkloadPhase.UNKNOWN, Forbidden, id="forbidden-for-now"),
        pytest.param(refusal(500), WorkloadPhase.UNKNOWN, ServerError, id="no-answer-leaves-it-in-doubt"),
    ],
)
async def test_a_live_read_that_fails(cluster, world, reader, answer, phase, raised):
    refer(cluster, world)
    answer_reads(cluster, answer)
    with pytest.raises(raised) if raised else contextlib.nullcontext():
        await reader.look_up(JOB, namespace=NAMESPACE)
    assert world.workloads.get(TRAIN).phase is phase


async def test_a_live_read_that_is_refused_again_and_again_is_the_answer(cluster, world, reader):
    refer(cluster, world)
    answer_reads(cluster, refusal(403, "Forbidden"))
    with pytest.raises(Forbidden):
        await reader.look_up(JOB, namespace=NAMESPACE)
    await settle(FORBIDDEN_AFTER)
    await reader.look_up(JOB, namespace=NAMESPACE)
    assert world.workloads.get(TRAIN).phase is WorkloadPhase.FORBIDDEN
    await settle(10 * FORBIDDEN_FOR)
    with pytest.raises(Forbidden):  # long ago is not again and again
        await reader.look_up(JOB, namespace=NAMESPACE)


async def test_a_live_read_of_no_kind(cluster, world, reader):
    reference = ConsumerReference.parse("rayclusters.ray.io/llm", uid=Uid("1"))
    refer(cluster, world, reference)
    await reader.look_up(reference, namespace=NAMESPACE)
    assert world.workloads.get(WorkloadKey.from_reference(reference, NAMESPACE)).phase is WorkloadPhase.NO_KIND
