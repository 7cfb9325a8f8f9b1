"""Pods of claims: their gate is removed, and their kubelets are made to look again."""

import asyncio
import contextlib

import pytest

from controller.claim_pod_writer import RESYNC_ATTEMPTS
from controller.parallel_requests import PARALLEL_MAX, PartialFailureError
from dra.engine.claims.actions import (
    ClaimPlan,
    ResyncPod,
    Ungate,
)
from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.kube.errors import NotFound, ServerError
from dra.model.meta import Uid
from tests.controller.claim_writes import USES, gated, losing, pod, with_an_allocated_claim
from tests.controller.cluster import PODS
from tests.dra.engine.examples import KEY, NAMESPACE, uid
from tests.dra.kube.scripted import refusal


@pytest.fixture
def cluster():
    return with_an_allocated_claim()


async def test_a_pod_is_let_go_as_the_version_that_was_decided_on(cluster, world, writer_of, metrics):
    found = gated(cluster, "a")
    world.observe_pod(found, now=0.0)
    version = found.metadata.resource_version
    await writer_of().apply(ClaimPlan(actions=(Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version=version),)))
    ((name, _, body),) = cluster.writes()
    assert (name, body["metadata"]) == ("a", {"resourceVersion": version, "uid": uid("a")})
    assert body["spec"] == {"schedulingGates": None}
    assert world.consumer(uid("a")).gates == ()
    assert b"dra_reserve_pods_ungated_total 1.0" in metrics.render()


async def test_a_pod_that_has_changed_is_read_again_and_decided_again(cluster, world, writer_of):
    found = gated(cluster, "a")
    world.observe_pod(found, now=0.0)
    cluster.put(
        PODS, NAMESPACE, "a", spec={**cluster.objects[cluster.path(PODS, NAMESPACE, "a")]["spec"], "priority": 5}
    )
    world.dirty.clear()
    stale = Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version=found.metadata.resource_version)
    await writer_of().apply(ClaimPlan(actions=(stale,)))
    assert (world.consumer(uid("a")).priority, world.consumer(uid("a")).gates) == (5, (SCHEDULING_GATE,))
    assert set(world.dirty) == {KEY}


async def test_a_pod_that_was_made_anew_is_not_let_go_in_the_place_of_the_old_one(cluster, world, writer_of):
    found = gated(cluster, "a")
    world.observe_pod(found, now=0.0)
    cluster.put(PODS, NAMESPACE, "a", metadata={"uid": "second"}, spec={"resourceClaims": USES})
    stale = Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version=found.metadata.resource_version)
    await writer_of().apply(ClaimPlan(actions=(stale,)))
    assert world.consumer(uid("a")) is None
    assert world.consumer(Uid("second")) is not None


async def test_a_pod_that_is_gone_is_forgotten(cluster, world, writer_of):
    world.observe_pod(gated(cluster, "a"), now=0.0)
    cluster.drop(PODS, NAMESPACE, "a")
    await writer_of().apply(ClaimPlan(actions=(Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version="1"),)))
    assert world.consumer(uid("a")) is None


async def test_a_pod_is_not_forgotten_when_a_server_does_not_serve_its_kind(cluster, world, writer_of):
    """A proxy without a server behind it, or a server that has just started, says that the page is not found."""
    world.observe_pod(gated(cluster, "a"), now=0.0)
    cluster.answer["PATCH"] = refusal(404, "NotFound", "the server could not find the requested resource")
    with pytest.raises(NotFound):
        await writer_of().apply(ClaimPlan(actions=(Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version="1"),)))
    assert world.consumer(uid("a")) is not None


async def test_a_window_of_pods_is_let_go_a_few_at_a_time(cluster, writer_of):
    under_way, most = 0, 0
    plain = cluster.send

    async def counted(request):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1
        return await plain(request)

    cluster.send = counted
    pods = [gated(cluster, f"p{number}").metadata for number in range(2 * PARALLEL_MAX)]
    plan = ClaimPlan(actions=tuple(Ungate(pod=m.key, uid=m.uid, resource_version=m.resource_version) for m in pods))
    await writer_of().apply(plan)
    assert (most, len(cluster.writes())) == (PARALLEL_MAX, 2 * PARALLEL_MAX)


@pytest.mark.parametrize("done", [True, False], ids=["done", "not-done"])
async def test_whether_a_pod_was_let_go_is_looked_for_as_well(cluster, world, writer_of, metrics, done):
    found = gated(cluster, "a")
    world.observe_pod(found, now=0.0)
    world.dirty.clear()
    losing(cluster, answers=1, done=done)
    version = found.metadata.resource_version
    plan = ClaimPlan(actions=(Ungate(pod=(NAMESPACE, "a"), uid=uid("a"), resource_version=version),))
    with contextlib.nullcontext() if done else pytest.raises(ServerError):
        await writer_of().apply(plan)
    assert (SCHEDULING_GATE in world.consumer(uid("a")).gates) is not done
    assert bool(world.dirty) is done, "what is not done is no news: the pause before the next attempt must last"
    assert (b"dra_reserve_pods_ungated_total 1.0" in metrics.render()) is done


async def test_a_kick_is_repeated(cluster, writer_of, clock):
    pod(cluster, "a")
    losing(cluster, answers=RESYNC_ATTEMPTS - 1, done=False)
    await writer_of().apply(ClaimPlan(actions=(ResyncPod(pod=(NAMESPACE, "a"), uid=uid("a")),)))
    assert len(cluster.writes()) == RESYNC_ATTEMPTS
    assert "annotations" in cluster.objects[cluster.path(PODS, NAMESPACE, "a")]["metadata"]
    assert 0.0 < clock.now() < 5.0


async def test_a_kick_is_not_repeated_for_ever(cluster, writer_of):
    pod(cluster, "a")
    losing(cluster, answers=100, done=False)
    with pytest.raises(ServerError):
        await writer_of().apply(ClaimPlan(actions=(ResyncPod(pod=(NAMESPACE, "a"), uid=uid("a")),)))
    assert len(cluster.writes()) == RESYNC_ATTEMPTS


async def test_one_pod_that_cannot_be_written_does_not_keep_the_others(cluster, writer_of):
    pods = [gated(cluster, name).metadata for name in "abc"]
    plain = cluster.send

    async def broken(request):
        return refusal(500) if request.path.endswith("/a") else await plain(request)

    cluster.send = broken
    plan = ClaimPlan(actions=tuple(Ungate(pod=m.key, uid=m.uid, resource_version=m.resource_version) for m in pods))
    with pytest.raises(PartialFailureError, match="1 of 3 requests about pods failed, the first: Pod ml/a: "):
        await writer_of().apply(plan)
    assert [name for name, _, _ in cluster.writes()] == ["b", "c"]


async def test_a_kick_changes_an_annotation_of_that_very_pod(cluster, writer_of):
    pod(cluster, "a")
    await writer_of().apply(ClaimPlan(actions=(ResyncPod(pod=(NAMESPACE, "a"), uid=uid("a")),)))
    ((_, _, body),) = cluster.writes()
    assert body["metadata"]["annotations"] == {"reserve.dra/listed-at": "2026-11-20T12:00:00.000000Z"}
    assert body["metadata"]["uid"] == uid("a")
    assert "resourceVersion" not in body["metadata"]


@pytest.mark.parametrize("form", [None, {"uid": "second"}], ids=["gone", "made-anew"])
async def test_nobody_is_left_to_be_kicked(cluster, writer_of, form):
    if form:
        pod(cluster, "a", metadata=form)
    await writer_of().apply(ClaimPlan(actions=(ResyncPod(pod=(NAMESPACE, "a"), uid=uid("a")),)))
    assert (
        "annotations" not in (cluster.objects.get(cluster.path(PODS, NAMESPACE, "a")) or {"metadata": {}})["metadata"]
    )
