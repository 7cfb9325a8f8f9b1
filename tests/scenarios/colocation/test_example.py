"""The manifests of examples/colocation on a real API server and scheduler; the test reports what the node uses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from dra.kube.clock import SYSTEM, rfc3339
from dra.model import quantities
from localplane.nodes.usage.demand import USAGE, Usage, parse_usage
from tests.cluster import fake_nodes
from tests.cluster.kubectl import kubectl
from tests.scenarios import installation
from tests.scenarios.api import Api, Json
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually
from tests.scenarios.resources import NODE_METRICS, NODES, PODS
from tests.scenarios.target import Capability, Mode, Target

if TYPE_CHECKING:
    from tests.scenarios.namespaces import Namespace

pytestmark = [pytest.mark.modes(Mode.ALONGSIDE), pytest.mark.needs(Capability.RIGHTS)]

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "colocation"
NODE: Final = "node-colocated"

BATCH_CPU: Final = "kubernetes.io/batch-cpu"
OF_THE_CONTROLLER: Final = frozenset({"dra-reserve-colocation", "koordinator-system", "nodemetrics.slo.koordinator.sh"})
WITHIN: Final = 60.0


def documents(file: str) -> list[Json]:
    return list(yaml.safe_load_all((EXAMPLE / file).read_text()))


class Place:
    """One node as large as those of the example, and the example's workloads on it."""

    def __init__(self, target: Target, namespace: Namespace) -> None:
        self.admin: Final = target.admin
        self.api: Final[Api] = namespace.api
        self.namespace: Final = namespace

    def apply(self, objects: list[Json]) -> None:
        kubectl(
            "apply", "--filename=-", kubeconfig=self.admin,
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
        )  # fmt: skip

    def run(self, file: str, *, replicas: int | None = None) -> None:
        """Apply a Deployment of the example, on the node of the test."""
        (deployment,) = documents(file)
        deployment["metadata"]["namespace"] = self.namespace.name
        spec = deployment["spec"]["template"]["spec"]
        spec["nodeSelector"] = {"kubernetes.io/hostname": NODE}
        spec["tolerations"] = [{"key": fake_nodes.FAKE, "operator": "Exists"}]
        deployment["spec"]["replicas"] = replicas or deployment["spec"]["replicas"]
        self.apply([deployment])

    async def pods(self, app: str) -> list[Json]:
        return await self.namespace.all(PODS, labelSelector=f"app={app}")

    async def until_running(self, app: str, count: int) -> None:
        async def running() -> int:
            return [pod["status"].get("phase") for pod in await self.pods(app)].count("Running")

        await eventually(running, until=lambda number: number == count, within=WITHIN, saying=f"{count} {app} run")

    async def report(self, web: str | None = None) -> None:
        """Report what the annotations say that pods use, and one CPU of the system."""
        metrics = []
        for pod in [*await self.pods("web"), *await self.pods("batch")]:
            meta = pod["metadata"]
            text = web if web is not None and meta["labels"]["app"] == "web" else meta["annotations"][USAGE]
            usage = parse_usage(text, default=Usage())
            resources = {"cpu": f"{usage.cpu}m", "memory": str(usage.memory)}
            identity = {"namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}
            metrics.append({**identity, "podUsage": {"resources": resources}})
        system = {"systemUsage": {"resources": {"cpu": "1", "memory": "2Gi"}}}
        status = {"updateTime": rfc3339(SYSTEM.wall()), "nodeMetric": system, "podsMetric": metrics}
        await self.api.patch(NODE_METRICS, NODE, {"status": status}, subresource="status")

    async def until_offered(self, wanted: int) -> None:
        async def offered() -> int:
            status = (await self.api.get(NODES, NODE))["status"]
            return int(quantities.parse(status["allocatable"].get(BATCH_CPU, 0)))

        await eventually(offered, until=lambda amount: amount == wanted, within=WITHIN, saying=f"{wanted} are offered")


@pytest.fixture
async def place(target: Target, namespace: Namespace, start_controller: StartController) -> AsyncIterator[Place]:
    made, api = Place(target, namespace), namespace.api
    objects = installation.rendered(installation.DEPLOY / "colocation", admin=target.admin)
    kept = [each for each in objects if each["metadata"]["name"] in OF_THE_CONTROLLER]
    made.apply([each for each in kept if each["kind"] in {"CustomResourceDefinition", "Namespace"}])
    kubectl("wait", "--for=condition=Established", "crd/nodemetrics.slo.koordinator.sh", kubeconfig=target.admin)
    made.apply(kept)
    made.apply([*documents("slo-controller-config-for-trying.yaml"), *documents("priority-class.yaml")])
    await api.request("POST", NODES.path(), fake_nodes.node(NODE))
    await start_controller(configuration=ALONE | {"colocation": True})
    await eventually(lambda: api.find(NODE_METRICS, NODE), within=WITHIN, saying="the node has a NodeMetric")
    try:
        yield made
    finally:
        kubectl("delete", "--ignore-not-found", "configmap/slo-controller-config", "--namespace=koordinator-system",
                kubeconfig=target.admin)  # fmt: skip
        kubectl("delete", "--ignore-not-found", "priorityclass/koord-batch", f"node/{NODE}", kubeconfig=target.admin)


async def test_batch_pods_run_beside_a_service_that_uses_little_and_none_ends_when_it_uses_much(place: Place) -> None:
    place.run("web.yaml")
    await place.until_running("web", 2)
    await place.report()
    await place.until_offered(30600)

    place.run("batch.yaml")
    await place.until_running("batch", 4)
    place.run("batch.yaml", replicas=6)
    await place.until_running("batch", 5)  # 36000 are more than are offered

    async def why_pods_wait() -> list[str]:
        return [
            condition["message"]
            for pod in await place.pods("batch")
            for condition in pod["status"].get("conditions", [])
            if (condition["type"], condition["status"]) == ("PodScheduled", "False")
        ]

    await eventually(
        why_pods_wait,
        until=lambda texts: len(texts) == 1 and f"Insufficient {BATCH_CPU}" in texts[0],
        within=WITHIN,
        saying="the sixth pod waits for batch CPUs",
    )

    place.run("batch.yaml")
    await place.report(web="cpu=16,memory=20Gi")
    await place.until_offered(24000)  # the sum is 8600; the batch pods hold more
    await place.until_running("batch", 4)
