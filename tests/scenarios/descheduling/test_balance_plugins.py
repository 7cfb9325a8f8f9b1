"""The plugins that compare nodes, and one of a user, each from its cause to the new pod; an evictor without places.

One descheduler has a profile for each plugin, and a profile looks at nodes with the label of its plugin alone. The
other Balance plugins are played in `test_rounds`, `test_hot_nodes` and `test_device_defragmentation`.
"""

from __future__ import annotations

import shutil
import tomllib
from typing import TYPE_CHECKING, Final

import pytest

from tests.cluster.kubectl import kubectl
from tests.scenarios.descheduling.conftest import MIGRATION
from tests.scenarios.descheduling.test_hot_nodes import report, served
from tests.scenarios.descheduling.test_rounds import change_node, jobs, moved, start_on
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.conftest import NODES, ROOT, descheduler
from tests.scenarios.reservations.migrations import pods_of, ready_pods, reasons
from tests.scenarios.resources import NODES as NODE_RESOURCE
from tests.scenarios.resources import RESERVATIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from tests.cluster.processes import Process
    from tests.scenarios.api import Api, Json
    from tests.scenarios.target import Target

POOL: Final = "pool"
FIRST, SECOND, THIRD = NODES

ARGS: Final[dict[str, Json]] = {
    "HighNodeUtilization": {"thresholds": {"cpu": 20}},
    "RemovePodsUnderPressure": {"consecutiveReports": 1, "nodeMetricExpirationSeconds": 3600},
    "RemovePodsViolatingTopologySpreadConstraint": {"constraints": ["ScheduleAnyway"]},
}
UNHELD: Final = "PodLifeTime"
"""The plugin of the profile whose evictor is DefaultEvictor."""

EXAMPLE: Final = ROOT / "examples" / "descheduler-plugin"
USERS: Final = "LeaveSpotNodes"
"""The plugin of `EXAMPLE`."""
ENDS: Final = {"key": "example.com/spot-node-ends", "effect": "NoSchedule"}


def profile(plugin: str, point: str, args: Json, **more: Json) -> Json:
    """Return a profile that looks at the nodes with the label of its plugin."""
    return {
        "name": plugin.lower(),
        "nodeSelector": {"matchLabels": {POOL: plugin}},
        "plugins": {point: {"enabled": [{"name": plugin}]}, **more},
        "pluginConfig": [{"name": plugin, "args": args}],
    }


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the example is installed, as pip leaves it."""
    folder = tmp_path_factory.mktemp("packages")
    shutil.copy(EXAMPLE / "leave_spot_nodes.py", folder)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    (installed / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def descheduling(
    target: Target, reserving: Process, packages: Path, request: pytest.FixtureRequest
) -> Iterator[Process]:
    """One descheduler with all of these profiles."""
    assert reserving.alive
    definition = f"{ROOT}/crds/nodemetrics.slo.koordinator.sh.yaml"
    kubectl("apply", f"--filename={definition}", kubeconfig=target.admin)
    kubectl("wait", "--for=condition=Established", f"--filename={definition}", kubeconfig=target.admin)
    evictor = {"enabled": [{"name": "DefaultEvictor"}], "disabled": [{"name": "*"}]}
    unheld = profile(UNHELD, "deschedule", {"maxPodLifeTimeSeconds": 1}, evict=evictor)
    users = profile(USERS, "deschedule", {"taint": ENDS["key"]})
    profiles = [*(profile(plugin, "balance", args) for plugin, args in ARGS.items()), unheld, users]
    limits = MIGRATION | {"maxMigratingPerWorkload": "100%", "maxUnavailablePerWorkload": "100%"}
    more: Json = {"deschedulingInterval": "1s", "profiles": profiles}
    with descheduler(request, target, limits, packages=packages, **more) as process:
        yield process


@pytest.fixture
async def descheduled(moving: Api, descheduling: Process) -> Api:
    """The API of a cluster whose descheduler runs these plugins."""
    assert descheduling.alive
    await eventually(lambda: served(moving), saying="the kind NodeMetric is served")
    return moving


async def join(api: Api, plugin: str, *nodes: str) -> None:
    """Have the profile of a plugin look at nodes."""
    for node in nodes:
        await change_node(api, node, metadata={"labels": {POOL: plugin}})


async def an_emptied_node(api: Api) -> set[str]:
    """Let the first node request little, and the second one much; the third one does not take part."""
    cpus = int((await api.get(NODE_RESOURCE, SECOND))["status"]["allocatable"]["cpu"])
    await start_on(api, SECOND, "packed", replicas=1, cpu=str(cpus // 2))
    await start_on(api, FIRST, "web", replicas=1)
    await join(api, "HighNodeUtilization", FIRST, SECOND)
    return {SECOND}


async def a_disturbed_pod(api: Api) -> set[str]:
    """Let a pod wait for CPUs where batch pods are at their floor, as they are on the second node."""
    (pod,) = await start_on(api, FIRST, "web", replicas=1, labels={"koordinator.sh/qosClass": "LS"})
    await report(api, FIRST, cpu=1, pods=[pod], each=1, pressure=60.0, at_floor=True)
    await report(api, SECOND, cpu=1, at_floor=True)
    await report(api, THIRD, cpu=1)
    await join(api, "RemovePodsUnderPressure", *NODES)
    return {THIRD}


async def a_crowded_domain(api: Api) -> set[str]:
    """Let all pods of a spread workload be on one node."""
    spread = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    await start_on(api, FIRST, "web", replicas=3, topologySpreadConstraints=[spread])
    await join(api, "RemovePodsViolatingTopologySpreadConstraint", *NODES)
    return {SECOND, THIRD}


async def a_spot_node_that_ends(api: Api) -> set[str]:
    """Let the provider announce the end of the first node; of the others only the second one takes part."""
    await start_on(api, FIRST, "web", replicas=2)
    await change_node(api, FIRST, spec={"taints": [ENDS]})
    await change_node(api, THIRD, spec={"unschedulable": True})
    await join(api, USERS, FIRST, SECOND)
    return {SECOND}


CAUSES: Final[dict[str, tuple[Callable[[Api], Awaitable[set[str]]], int]]] = {
    "HighNodeUtilization": (an_emptied_node, 1),
    "RemovePodsUnderPressure": (a_disturbed_pod, 1),
    "RemovePodsViolatingTopologySpreadConstraint": (a_crowded_domain, 2),
    USERS: (a_spot_node_that_ends, 2),
}
"""Plugin → its cause, which returns the nodes that may receive pods, and the pods that have to go."""


@pytest.mark.parametrize("plugin", CAUSES)
async def test_what_a_plugin_moves_gets_its_place_first_and_only_where_the_plugin_says(
    descheduled: Api, plugin: str
) -> None:
    cause, count = CAUSES[plugin]
    receivers = await cause(descheduled)
    made = await moved(descheduled, trigger=plugin, count=count)
    assert {job["status"]["nodeName"] for job in made} == receivers
    assert {await descheduled.find(RESERVATIONS, job["metadata"]["uid"]) is None for job in made} == {False}


async def test_the_default_evictor_ends_a_pod_without_a_place_and_says_so_to_the_pod(descheduled: Api) -> None:
    (old,) = await start_on(descheduled, FIRST, "web", replicas=1)
    await join(descheduled, UNHELD, FIRST, SECOND)

    async def replaced() -> list[Json]:
        return [pod for pod in await pods_of(descheduled, "web") if pod["metadata"]["uid"] != old["metadata"]["uid"]]

    await eventually(replaced, saying="another pod takes the place of the old one")
    await join(descheduled, "", FIRST, SECOND)
    await ready_pods(descheduled, "web", 1)
    assert await jobs(descheduled) == []
    assert await descheduled.all(RESERVATIONS) == []
    await eventually(
        lambda: reasons(descheduled, old), until=lambda told: "Descheduled" in told, saying="an Event tells it"
    )
