"""CPUs on a real kubelet below a runtime that puts each process a level deeper than the container's cgroup.

The runtime is runc with a changed bundle (`tests.cluster.runtime.NESTING`); all its containers are in a cgroup named
``container``, as those of crun with systemd are. A machine of two CPUs has one to give, one of three or more has two.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from dra.engine.cpus.cpusets import CpuSet, parse
from tests.cluster.node import RealNode
from tests.cluster.runtime import NESTED, NESTED_LEVEL
from tests.scenarios import objects
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.real_node.cpus import (
    QUALITIES,
    WITHIN,
    Sight,
    StartCpus,
    device_class,
    kill,
    run,
    sees,
    sights,
)
from tests.scenarios.resources import PODS
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.needs(Capability.KUBELET, Capability.COMPONENTS), pytest.mark.modes(Mode.ALONGSIDE)]

ONLINE: Final = parse(Path("/sys/devices/system/cpu/online").read_text(encoding="ascii"))

CLAIMS: Final = tuple(f"claim-{number}" for number in range(min(2, len(ONLINE) - 1)))

RUNTIMES: Final = ("deeper", "plain")
"""A pod of each shares each claim."""


@pytest.fixture
def namespace(cpu_namespace: Namespace) -> Namespace:
    """One with a class of CPUs."""
    return cpu_namespace


async def test_containers_a_level_deeper_have_their_own_cpus_only_also_after_restarts_of_containers_and_plugin(
    start_cpus: StartCpus, namespace: Namespace, real_node: RealNode, remark: Callable[[str], None]
) -> None:
    runtime = f"{namespace.name}-{NESTED}"
    await namespace.create(
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": runtime}, "handler": NESTED}
    )
    first = start_cpus("one")
    await first.start()
    await run(namespace, "bystander", runtime=runtime)
    await sees(real_node, namespace, "bystander", str(ONLINE))

    owners = {}
    for claim in CLAIMS:
        await namespace.create(objects.claim(claim, device_class=device_class(namespace)))
        for kind in RUNTIMES:
            pod = f"{claim}-{kind}"
            await run(namespace, pod, claim=claim, runtime=runtime if kind == "deeper" else None, quality="burstable")
            owners[pod] = await has_one_cpu(real_node, namespace, pod)
    given = CpuSet(cpu for sight in owners.values() for cpu in parse(sight.mask))
    rest = str(ONLINE - given)
    assert len(given) == len(CLAIMS)
    for claim in CLAIMS:
        (deeper, plain) = (owners[f"{claim}-{kind}"].mask for kind in RUNTIMES)
        assert deeper == plain
        assert levels(real_node, namespace, f"{claim}-deeper") == [NESTED_LEVEL]
    await sees(real_node, namespace, "bystander", rest)

    for pod in owners:
        kill(namespace, real_node, pod)
    await others_have(namespace, real_node, "again", runtime=runtime, mask=rest)
    first.stop()
    for pod in owners:
        kill(namespace, real_node, pod)
    await start_cpus("two").start()
    await others_have(namespace, real_node, "later", runtime=runtime, mask=rest)
    for pod, sight in owners.items():
        seen = sights(real_node, namespace, pod)
        assert {line.mask for line in seen} == {sight.mask}
        remark(f"CPUs: {len(seen)} lines of {pod} on CPU {sight.mask}")

    for pod in owners:
        await namespace.delete(PODS, pod)
    await sees(real_node, namespace, "bystander", str(ONLINE))


async def has_one_cpu(node: RealNode, namespace: Namespace, pod: str) -> Sight:
    """Wait until a pod's container has said what it runs on, and return the first line: a single CPU."""
    (first,) = await eventually(lambda: sights(node, namespace, pod)[:1], within=WITHIN, saying=f"pod {pod} runs")
    assert len(parse(first.mask)) == 1
    return first


async def others_have(namespace: Namespace, node: RealNode, name: str, *, runtime: str, mask: str) -> None:
    """Assert that new pods of each class, and the bystander, have these CPUs."""
    pods = {f"{name}-{quality}": quality for quality in QUALITIES}
    for pod, quality in pods.items():
        await run(namespace, pod, quality=quality, runtime=runtime)
    for pod in (*pods, "bystander"):
        await sees(node, namespace, pod, mask)


def levels(node: RealNode, namespace: Namespace, pod: str) -> list[str]:
    """Return the last part of the cgroup of cpusets of each of a pod's containers."""
    names = []
    for container in node.containers(namespace.name, pod):
        if container.name:
            lines = Path(f"/proc/{container.pid}/cgroup").read_text(encoding="ascii").splitlines()
            split = [line.split(":", 2) for line in lines]
            path = next(path for _, controllers, path in split if controllers in ("cpuset", ""))
            names.append(path.rpartition("/")[2])
    return names
