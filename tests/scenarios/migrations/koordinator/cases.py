"""The table of cases: what a person does, the same before either descheduler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from tests.scenarios.migrations.koordinator.manifests import reference
from tests.scenarios.resources import NODES, PODS

if TYPE_CHECKING:
    from tests.scenarios.migrations.koordinator.play import Play

Case = Callable[["Play"], Awaitable[None]]

NEVER_EVICT: Final = {"scheduling.koordinator.sh/eviction-cost": "2147483647"}
EVICT_POLICY: Final = "koordinator.sh/evict-policy"


async def demo(play: Play) -> None:
    await play.migrate(await play.workload(), paused=False, mode="ReservationFirst")


async def no_mode(play: Play) -> None:
    await play.migrate(await play.workload())


async def no_ttl(play: Play) -> None:
    await play.migrate(await play.workload(), ttl=None)


async def one_replica(play: Play) -> None:
    await play.migrate(await play.workload(replicas=1), mode="ReservationFirst")


async def evict_directly(play: Play) -> None:
    await play.migrate(await play.workload(), mode="EvictDirectly")


async def evict_directly_one_replica(play: Play) -> None:
    await play.migrate(await play.workload(replicas=1), mode="EvictDirectly")


async def evict_directly_bare_pod(play: Play) -> None:
    await play.migrate(await play.workload("Pod"), mode="EvictDirectly")


async def stateful_set(play: Play) -> None:
    await play.migrate(await play.workload("StatefulSet"))


async def batch_job(play: Play) -> None:
    await play.migrate(await play.workload("Job"))
    await play.ended(within=40)  # the Job waits before it replaces a pod


async def daemon_set(play: Play) -> None:
    await play.migrate(await play.workload("DaemonSet"), ttl="12s")


async def bare_pod(play: Play) -> None:
    await play.migrate(await play.workload("Pod"), ttl="12s")


async def pending_pod(play: Play) -> None:
    pod = await play.workload(replicas=4, spec=play.one_per_node(), pending=1)
    await play.migrate(pod, ttl="20s")
    await play.snapshot("no node fits")


async def missing_pod(play: Play) -> None:
    await play.migrate({"metadata": {"namespace": play.app, "name": "nobody"}})


async def pod_ref_without_namespace(play: Play) -> None:
    pod = await play.workload()
    await play.migrate(podRef={"name": pod["metadata"]["name"]})


async def pod_ref_with_another_uid(play: Play) -> None:
    pod = await play.workload()
    other = {"namespace": play.app, "name": pod["metadata"]["name"], "uid": "00000000-0000-0000-0000-000000000000"}
    await play.migrate(podRef=other)


async def without_pod_ref(play: Play) -> None:
    await play.migrate()


async def unknown_mode(play: Play) -> None:
    await play.migrate(await play.workload(), mode="Gently")


async def negative_ttl(play: Play) -> None:
    await play.migrate(await play.workload(), ttl="-5s")


async def supplied_reservation(play: Play) -> None:
    pod = await play.workload()
    room = await play.reservation(node=await play.other_node(pod))
    await play.migrate(pod, reservationOptions={"reservationRef": reference(room)})


async def supplied_reservation_that_is_used(play: Play) -> None:
    pod = await play.workload()
    room = await play.reservation(node=await play.other_node(pod))
    await play.scale(4)
    await play.reservation_is(room, "Succeeded")
    await play.migrate(pod, reservationOptions={"reservationRef": reference(room)})


async def supplied_reservation_on_the_same_node(play: Play) -> None:
    pod = await play.workload()
    room = await play.reservation(node=pod["spec"]["nodeName"])
    await play.migrate(pod, reservationOptions={"reservationRef": reference(room)})


async def supplied_reservation_that_is_missing(play: Play) -> None:
    pod = await play.workload()
    await play.migrate(pod, reservationOptions={"reservationRef": reference(f"{play.app}-nothing")})


async def supplied_template(play: Play) -> None:
    template = {"metadata": {"labels": {"team": "ml"}}, "spec": {"allocateOnce": False, "ttl": "1h"}}
    await play.migrate(await play.workload(), reservationOptions={"template": template})


async def supplied_template_with_owners(play: Play) -> None:
    owners = [{"labelSelector": {"matchLabels": {"app": play.app}}}]
    template = {"spec": {"owners": owners}}
    await play.migrate(await play.workload(), reservationOptions={"template": template})


async def unschedulable(play: Play) -> None:
    await play.only_node()
    await play.migrate(await play.workload(spec=play.selector()), ttl="20s")
    await play.snapshot("no other node fits")


async def unschedulable_for_a_while(play: Play) -> None:
    first = await play.only_node()
    pod = await play.workload(spec=play.selector())
    job = await play.migrate(pod)
    await play.step(job, "Unschedulable")
    others = [each["metadata"]["name"] for each in await play.api.all(NODES)]
    await play.only_node(next(name for name in sorted(others) if name != first))


async def paused(play: Play) -> None:
    job = await play.migrate(await play.workload(), paused=True, ttl="5s")
    await play.snapshot("paused for longer than the ttl")
    await play.change(job, paused=False)


async def paused_and_resumed(play: Play) -> None:
    job = await play.migrate(await play.workload(), paused=True)
    await play.snapshot("paused")
    await play.change(job, paused=False)


async def ttl_while_a_budget_refuses(play: Play) -> None:
    pod = await play.workload()
    await play.budget(min_available=3, allowed=0)
    await play.migrate(pod, ttl="6s")


async def budget_refuses_then_allows(play: Play) -> None:
    pod = await play.workload()
    await play.budget(min_available=3, allowed=0)
    await play.migrate(pod)
    await play.snapshot("the budget allows 0")
    await play.budget(min_available=2, allowed=1)
    await play.ended(within=60)


async def pod_deleted_while_a_budget_refuses(play: Play) -> None:
    pod = await play.workload()
    await play.budget(min_available=3, allowed=0)
    await play.migrate(pod)
    await play.snapshot("the budget allows 0")
    await play.api.delete(PODS, pod["metadata"]["name"], namespace=play.app)


async def policy_delete_while_a_budget_refuses(play: Play) -> None:
    pod = await play.workload()
    await play.budget(min_available=3, allowed=0)
    await play.migrate(pod, labels={EVICT_POLICY: "Delete"}, ttl="15s")


async def policy_delete(play: Play) -> None:
    await play.migrate(await play.workload(), labels={EVICT_POLICY: "Delete"})


async def policy_of_the_pod(play: Play) -> None:
    await play.migrate(await play.workload(labels={EVICT_POLICY: "Delete"}))


async def policy_soft_eviction(play: Play) -> None:
    await play.migrate(await play.workload(), labels={EVICT_POLICY: "SoftEviction"}, ttl="15s")


async def unknown_policy(play: Play) -> None:
    await play.migrate(await play.workload(), labels={EVICT_POLICY: "Gently"}, ttl="15s")


async def eviction_cost(play: Play) -> None:
    await play.migrate(await play.workload(annotations=NEVER_EVICT))


async def eviction_cost_as_label(play: Play) -> None:
    await play.migrate(await play.workload(labels=NEVER_EVICT))


async def evict_directly_eviction_cost(play: Play) -> None:
    await play.migrate(await play.workload(annotations=NEVER_EVICT), mode="EvictDirectly")


async def two_jobs_for_one_pod(play: Play) -> None:
    pod = await play.workload(spec=play.selector() if await play.only_node() else None)
    await play.migrate(pod, ttl="20s")
    await play.migrate(pod, ttl="20s")


async def two_pods_of_one_workload(play: Play) -> None:
    pod = await play.workload()
    other = await play.another()
    await play.begun(await play.migrate(pod))
    await play.migrate(other)


async def unknown_scheduler(play: Play) -> None:
    (node, *_) = await play.api.all(NODES)
    spec = {"schedulerName": "nobody", "nodeName": node["metadata"]["name"]}
    await play.migrate(await play.workload(spec=spec), ttl="12s")


async def local_storage(play: Play) -> None:
    spec = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
    await play.migrate(await play.workload(spec=spec))


async def deleted_while_unschedulable(play: Play) -> None:
    await play.only_node()
    job = await play.migrate(await play.workload(spec=play.selector()))
    await play.step(job, "Unschedulable")
    await play.delete(job)


async def deleted_after_success(play: Play) -> None:
    job = await play.migrate(await play.workload())
    await play.snapshot("succeeded")
    await play.delete(job)


CASES: Final[tuple[Case, ...]] = (
    demo,
    no_mode,
    no_ttl,
    one_replica,
    evict_directly,
    evict_directly_one_replica,
    evict_directly_bare_pod,
    stateful_set,
    batch_job,
    daemon_set,
    bare_pod,
    pending_pod,
    missing_pod,
    pod_ref_without_namespace,
    pod_ref_with_another_uid,
    without_pod_ref,
    unknown_mode,
    negative_ttl,
    supplied_reservation,
    supplied_reservation_that_is_used,
    supplied_reservation_on_the_same_node,
    supplied_reservation_that_is_missing,
    supplied_template,
    supplied_template_with_owners,
    unschedulable,
    unschedulable_for_a_while,
    paused,
    paused_and_resumed,
    ttl_while_a_budget_refuses,
    budget_refuses_then_allows,
    pod_deleted_while_a_budget_refuses,
    policy_delete_while_a_budget_refuses,
    policy_delete,
    policy_of_the_pod,
    policy_soft_eviction,
    unknown_policy,
    eviction_cost,
    eviction_cost_as_label,
    evict_directly_eviction_cost,
    two_jobs_for_one_pod,
    two_pods_of_one_workload,
    unknown_scheduler,
    local_storage,
    deleted_while_unschedulable,
    deleted_after_success,
)


def name_of(case: Case) -> str:
    """Return the name of a case, which is the name of its record."""
    return case.__name__.replace("_", "-")
