"""Reservations and migrations on a real kubelet: what containers get, as they say it themselves, and how they end."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from itertools import pairwise
from typing import Final

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.components import REAL_NODES
from tests.cluster.node import RealNode
from tests.scenarios import installation, objects, steps
from tests.scenarios.api import Api, Json
from tests.scenarios.claims import allocated
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node.cpus import DRIVER as CPUS
from tests.scenarios.real_node.cpus import CpuPlugin, sees, sights, sights_in
from tests.scenarios.real_node.plugin import DRIVER, Plugin, cdi_files
from tests.scenarios.reservations.device_histories import (
    DeviceHistory,
    State,
    claims_of,
    devices,
    listed_uids,
    uid_of,
    used_by,
)
from tests.scenarios.reservations.migrations import SCHEDULER, migration, outcome, ready_pods
from tests.scenarios.reservations.migrations import ended as migrated
from tests.scenarios.reservations.test_devices import (
    claim_of,
    device_ids,
    kept_by,
    pod,
    reserve,
    rsv,
    runs,
    waits,
    without_a_gap,
)
from tests.scenarios.resources import CLAIMS, NODES, POD_MIGRATION_JOBS, PODS, RESERVATIONS, STATEFUL_SETS
from tests.scenarios.target import Capability

pytestmark = [pytest.mark.long, pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS)]

GPUS: Final = 4
WITHIN: Final = 60.0
ENDING: Final = 3
"""Seconds that a container needs to end."""
WHERE: Final = "echo has=$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status)"
LINES_OF_CPUS: Final = """
left=
trap 'left=60' TERM
while [ "$left" != 0 ]; do
  while read -r key mask; do [ "$key" = Cpus_allowed_list: ] && break; done </proc/self/status
  read -r now _ </proc/uptime
  echo "$now $mask"
  [ -z "$left" ] || left=$((left - 1))
  sleep 0.05
done
exit 0
"""
"""Writes all the time what the container may run on; asked to end, for three seconds and more."""
TELL: Final = "echo has=$(env | sed -n 's/^GPU_DEVICE_[0-9]*=//p')"


@pytest.fixture(scope="module")
def real_node(cluster: Cluster) -> Iterator[RealNode]:
    with RealNode(cluster) as node:
        yield node


@pytest.fixture
async def gpus(real_node: RealNode, cluster: Cluster) -> AsyncIterator[Plugin]:
    """The plugin with four simulated GPUs."""
    admin = cluster.admin_kubeconfig
    installation.install(admin, kustomization=installation.PLUGIN_KUSTOMIZATION)
    account = installation.plugin_kubeconfig(admin, real_node.folder.path, node=real_node.name)
    plugin = Plugin(real_node, kubeconfig=account, gpus=GPUS)
    await plugin.start()
    try:
        yield plugin
    finally:
        plugin.process.stop()
        plugin.forget()


@pytest.fixture
async def cpus(real_node: RealNode) -> AsyncIterator[CpuPlugin]:
    """The plugin with the machine's CPUs, but for the first."""
    async with cpus_of(real_node) as plugin:
        yield plugin


@pytest.fixture
async def next_node(real_node: RealNode, cluster: Cluster) -> AsyncIterator[RealNode]:
    """A second node beside the first, each with one CPU to give: the first node CPU 1, the second node CPU 0."""
    async with AsyncExitStack() as stack:
        node = stack.enter_context(RealNode(cluster, REAL_NODES[1]))
        await stack.enter_async_context(cpus_of(real_node))
        await stack.enter_async_context(cpus_of(node, reserved="1"))
        yield node


@asynccontextmanager
async def cpus_of(node: RealNode, *, reserved: str = "0") -> AsyncIterator[CpuPlugin]:
    """Run the CPU driver on a node; afterwards nothing of the driver is left there."""
    plugin = CpuPlugin(node, "held", reserved=reserved)
    try:
        await plugin.start()
        yield plugin
    finally:
        plugin.process.stop()
        shutil.rmtree(node.plugins / CPUS, ignore_errors=True)
        for file in (*node.cdi.glob(f"{CPUS}*"), *node.plugins_registry.glob(f"{CPUS}*")):
            file.unlink(missing_ok=True)


async def test_containers_get_exactly_the_devices_that_are_held(
    emptied: Api, namespace: Namespace, gpus: Plugin, real_node: RealNode
) -> None:
    of = f"{namespace.name}-gpus"
    await namespace.create(objects.device_class(of, driver=DRIVER))
    await namespace.create(objects.claim_template("pair", device_class=of, devices=2))
    place = {each: objects.ON_REAL_NODE[each] for each in ("nodeSelector", "tolerations")}
    await reserve(namespace, "held", where=place)
    held = await kept_by(namespace, "held")
    ids, name = device_ids(held), held["metadata"]["name"]
    shape = {"spec": objects.ON_REAL_NODE, "script": TELL}

    async with namespace.history(name) as history:
        await namespace.create(pod("other-0", app="stranger", **shape))
        await runs(namespace, "other-0", within=WITHIN)
        others = await said(real_node, namespace, "other-0")
        assert len(others) == 2
        await namespace.create(pod("other-1", app="stranger", **shape))
        await waits(namespace, "other-1")
        seen = []
        for owner in ("owner-0", "owner-1"):
            await namespace.create(pod(owner, app="held", **shape))
            await runs(namespace, owner, within=WITHIN)
            given = await claim_of(namespace, owner)
            assert (given["metadata"]["name"], device_ids(given)) == (name, ids)
            seen.append(await said(real_node, namespace, owner))
            await namespace.delete(PODS, owner, grace_seconds=1)
            await kept_by(namespace, "held")
        assert seen[0] == seen[1]
        assert seen[0].isdisjoint(others)

    assert all(without_a_gap(version) for version in history.versions)
    over = {"spec": {"expires": "2020-01-01T00:00:00Z"}}
    await emptied.patch(RESERVATIONS, rsv(namespace, "held"), over, kind="merge-patch")
    await runs(namespace, "other-1", within=WITHIN)
    assert await said(real_node, namespace, "other-1") == seen[0]

    await ended(namespace, "other-0", "other-1")
    await eventually(
        lambda: (cdi_files(real_node), gpus.prepared()),
        until=lambda left: left == (set(), set()),
        within=WITHIN,
        saying="nothing is left of what was prepared",
    )


async def test_the_cpus_that_are_held_are_the_cpus_that_containers_run_on(
    emptied: Api, namespace: Namespace, cpus: CpuPlugin, real_node: RealNode
) -> None:
    assert cpus.process.alive
    of = f"{namespace.name}-cpus"
    await namespace.create(objects.device_class(of, driver=CPUS))
    await namespace.create(objects.claim_template("pair", device_class=of, devices=1))
    place = {each: objects.ON_REAL_NODE[each] for each in ("nodeSelector", "tolerations")}
    await reserve(namespace, "held", where=place)
    held = await kept_by(namespace, "held")
    shape = {"spec": objects.ON_REAL_NODE, "script": WHERE}

    async with namespace.history(held["metadata"]["name"]) as history:
        seen = []
        for owner in ("owner-0", "owner-1"):
            await namespace.create(pod(owner, app="held", **shape))
            await runs(namespace, owner, within=WITHIN)
            assert device_ids(await claim_of(namespace, owner)) == device_ids(held)
            seen.append(await said(real_node, namespace, owner))
            await namespace.delete(PODS, owner, grace_seconds=1)
            await kept_by(namespace, "held")
    assert all(without_a_gap(version) for version in history.versions)
    assert seen[0] == seen[1]
    assert {int(cpu) for cpu in seen[0]} == {cpu_of(device) for device in device_ids(held)}
    await emptied.delete(RESERVATIONS, rsv(namespace, "held"))
    await ended(namespace)


async def test_a_running_pod_migrates_and_has_its_time_to_end(
    migrating: Api, namespace: Namespace, real_node: RealNode
) -> None:
    """The container needs some seconds to end; its replacement is Ready on another node meanwhile."""
    nodes = [each["metadata"]["name"] for each in await migrating.all(NODES)]
    script = f"trap 'echo ending; sleep {ENDING}; exit 0' TERM\necho running\nsleep infinity &\nwait"
    place = {**objects.ON_REAL_NODE, "nodeSelector": {}, "terminationGracePeriodSeconds": 30}
    shape = objects.PodShape(script=script, spec={**place, "schedulerName": SCHEDULER})
    made = objects.deployment("serves", shape)
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "50m"}}
    for node in nodes:
        await cordon(migrating, node, cordoned=node != real_node.name)
    try:
        await namespace.create(made)
        (old,) = await ready_pods(migrating, "serves", 1, namespace=namespace.name, within=WITHIN)
    finally:
        for node in nodes:
            await cordon(migrating, node, cordoned=False)
    name = old["metadata"]["name"]
    assert old["spec"]["nodeName"] == real_node.name
    async with namespace.history(name, resource=PODS) as history:
        await migrating.create(migration("moves", old))
        job = await migrated(migrating, "moves", within=WITHIN)
    assert outcome(job) == ("Succeeded", ""), job["status"]
    (new,) = await ready_pods(migrating, "serves", 1, namespace=namespace.name)
    assert new["spec"]["nodeName"] == job["status"]["nodeName"] != real_node.name
    assert new["metadata"]["name"] == job["status"]["podRef"]["name"]

    assert [each.change for each in history.versions][-1] == "DELETED"
    asked = next(each for each in history.versions if "deletionTimestamp" in each.object["metadata"])
    assert asked.object["metadata"]["deletionGracePeriodSeconds"] == 30
    assert history.versions[-1].received - asked.received > ENDING - 0.5
    (container,) = history.versions[-1].object["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 0


async def test_a_pod_with_a_cpu_of_its_own_migrates_and_has_one_or_one_is_held(
    migrating: Api, namespace: Namespace, real_node: RealNode, next_node: RealNode
) -> None:
    """The StatefulSet creates the replacement once the old pod has ended: seconds in which nothing but a hold counts.

    Meanwhile a stranger asks for the CPU on the new node, and gets that CPU when the replacement has ended.
    """
    of = f"{namespace.name}-cpus"
    await namespace.create(objects.device_class(of, driver=CPUS))
    await namespace.create(objects.claim_template("cpu", device_class=of))
    await cordon(migrating, next_node.name, cordoned=True)
    await namespace.create(serving())
    (old,) = await ready_pods(migrating, "serves", 1, namespace=namespace.name, within=WITHIN)
    await cordon(migrating, next_node.name, cordoned=False)
    assert old["spec"]["nodeName"] == real_node.name
    name = old["metadata"]["name"]
    before = await claims_of(namespace, old)

    with ExitStack() as stack:
        of_old = stack.enter_context(real_node.outlasting_output(namespace.name, name))
        async with DeviceHistory(namespace) as history:
            await migrating.create(migration("moves", old))
            await eventually(
                lambda: migrating.get(POD_MIGRATION_JOBS, "moves"),
                until=lambda job: job.get("status", {}).get("nodeName"),
                saying="the Reservation has a node",
            )
            await namespace.create(stranger(node=next_node.name))
            job = await migrated(migrating, "moves", within=WITHIN)
            assert outcome(job) == ("Succeeded", ""), job["status"]
            (new,) = await ready_pods(migrating, "serves", 1, namespace=namespace.name)
            await sees(next_node, namespace, name, "0")
            await waits(namespace, "stranger")
        of_new = stack.enter_context(next_node.outlasting_output(namespace.name, name))
        after = await claims_of(namespace, new)
        await namespace.delete(STATEFUL_SETS, "serves")
        await sees(next_node, namespace, "stranger", "0")
        seen = [sights_in(each()) for each in (of_old, of_new)] + [sights(next_node, namespace, "stranger")]
    assert new["spec"]["nodeName"] == job["status"]["nodeName"] == next_node.name
    history.assert_never_without(old=old, before=before, new=new, after=after, job=job)
    held = alone(history.states(), after["device"], history.holders(job))
    assert any(uid_of(old) not in state and refused(state, "stranger") for state in held)
    (given,) = (await claims_of(namespace, await namespace.get(PODS, "stranger"))).values()
    assert devices(given) == devices(after["device"])

    assert [{each.mask for each in lines} for lines in seen] == [{"1"}, {"0"}, {"0"}]
    for earlier, later in pairwise(seen):
        assert earlier[-1].at < later[0].at
    await ended(namespace, "stranger")


async def cordon(api: Api, node: str, *, cordoned: bool) -> None:
    await api.patch(NODES, node, {"spec": {"unschedulable": cordoned or None}}, kind="merge-patch")


def serving() -> Json:
    """Return a StatefulSet of one pod with a CPU of its own, on a real node."""
    place = {**objects.ON_REAL_NODE, "terminationGracePeriodSeconds": 30, "schedulerName": SCHEDULER}
    made = objects.deployment("serves", objects.PodShape(claim_template="cpu", script=LINES_OF_CPUS, spec=place))
    made["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "50m"}
    return made | {"kind": STATEFUL_SETS.kind, "spec": made["spec"] | {"serviceName": "serves"}}


def stranger(*, node: str) -> Json:
    """Return a pod that asks for a CPU of its own on one node, and is no owner of any Reservation."""
    place = objects.ON_REAL_NODE | steps.on(node) | {"schedulerName": SCHEDULER}
    made = objects.pod("stranger", objects.PodShape(claim_template="cpu", script=LINES_OF_CPUS, spec=place))
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "50m"}
    return made


def alone(states: list[State], claim: Json, holders: set[str]) -> list[State]:
    """Return the states in which nothing but the Reservation kept a claim."""
    held = ((state, state.get(uid_of(claim))) for state in states)
    return [state for state, found in held if found and used_by(found, holders) and listed_uids(found) <= holders]


def refused(state: State, name: str) -> bool:
    """Tell whether the scheduler had found no node for a pod."""
    return any(each["metadata"]["name"] == name and steps.unschedulable(each) for each in state.values())


def cpu_of(device: str) -> int:
    """Return the number in a device's name."""
    return int("".join(each for each in device if each.isdigit()))


async def ended(namespace: Namespace, *pods: str) -> None:
    """End pods, and see that nothing is allocated any more."""
    for each in pods:
        await namespace.delete(PODS, each)
    await eventually(
        lambda: namespace.all(CLAIMS),
        until=lambda found: not any(allocated(each) for each in found),
        within=WITHIN,
        saying="all devices are free",
    )


async def said(node: RealNode, namespace: Namespace, name: str) -> set[str]:
    """Return the devices that a container says it has."""
    (line,) = await eventually(
        lambda: [line for line in node.output(namespace.name, name).splitlines() if line.startswith("has=")],
        until=bool,
        within=WITHIN,
        saying=f"pod {name} says what it has",
    )
    return set(line.removeprefix("has=").split())
