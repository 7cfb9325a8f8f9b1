"""A whole plane plays colocation, in virtual time, with the controller of real clusters and the example's manifests."""

import asyncio
import contextlib
import json

import pytest
import yaml

from controller.application import Application
from dra.api.configuration import ControllerConfiguration
from dra.cli.local import plane_colocation
from dra.cli.local.controller_process import CONTROLLER_CONFIGURATION
from dra.kube.transport import MERGE_PATCH, Request
from dra.model.quantities import parse
from localplane.fault_injection import Fault, FaultRule
from localplane.nodes.kubelets import SILENT
from localplane.nodes.usage.demand import USAGE
from localplane.objects import decode, encode
from localplane.plane.local_plane import LocalPlane
from localplane.plane.options import PlaneOptions
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import LoopClock, seeded
from tests.pages.reading import ROOT

VIRTUAL_TIME = True

EXAMPLE = ROOT / "examples" / "colocation"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "ConfigMap": "/api/v1/namespaces/koordinator-system/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/colocation/deployments",
    "Pod": "/api/v1/namespaces/colocation/pods",
    "ClusterColocationProfile": "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles",
}
NODE = "/api/v1/nodes/node-1"
CONFIG_MAP = f"{PATHS['ConfigMap']}/slo-controller-config"
NODE_METRIC = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics/node-1"
BATCH_CPU = "kubernetes.io/batch-cpu"
SILENT_CONTROLLER = {**CONTROLLER_CONFIGURATION, "colocation": True, "probes": None, "metrics": None}


class Site:
    """A plane of two nodes of 64 CPUs, and who uses it."""

    def __init__(self):
        self.plane = LocalPlane(PlaneOptions(nodes=2, devices=0), clock=LoopClock(), random=seeded(1))
        self.colocation = plane_colocation.add_colocation(self.plane)
        self.plane.add_component("controller", self._control)

    async def _control(self):
        await self.colocation.wait_ready()
        transport = LocalTransport(self.plane.handler_for("controller"))
        configuration = ControllerConfiguration.model_validate(SILENT_CONTROLLER)
        await Application(configuration, transport, clock=self.plane.clock).run()

    async def ask(self, method, path, body=None):
        raw = None if body is None else encode(body)
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        request = Request(method=method, path=path, body=raw, content_type=kind, agent="kubectl/1", timeout=30.0)
        answer = await self.plane.handle(request)
        assert answer.status < 300, answer.body
        return decode(answer.body)

    async def apply(self, *files):
        for file in files:
            for each in yaml.safe_load_all((EXAMPLE / file).read_text()):
                await self.ask("POST", PATHS[each["kind"]], each)

    async def enable(self):
        await self.apply("slo-controller-config-for-trying.yaml", "00-namespace.yaml", "priority-class.yaml")

    async def offered(self, resource=BATCH_CPU):
        """Return what the node offers, if it does; the same in capacity and allocatable."""
        status = (await self.ask("GET", NODE))["status"]
        text = status["allocatable"].get(resource)
        assert status["capacity"].get(resource) == text
        return None if text is None else int(parse(text))

    async def until_offered(self, wanted, *, seconds=60):
        async with asyncio.timeout(seconds):
            while True:
                offered = await self.offered()
                if offered == wanted:
                    return offered
                await asyncio.sleep(1)

    async def pods(self, app):
        listed = (await self.ask("GET", PATHS["Pod"]))["items"]
        return [pod for pod in listed if pod["metadata"]["labels"].get("app") == app]

    async def until_running(self, app, count):
        async with asyncio.timeout(60):
            while True:
                phases = [pod["status"].get("phase") for pod in await self.pods(app)]
                if phases.count("Running") >= count:
                    return
                await asyncio.sleep(1)

    async def use(self, app, usage):
        for pod in await self.pods(app):
            path = f"{PATHS['Pod']}/{pod['metadata']['name']}"
            await self.ask("PATCH", path, {"metadata": {"annotations": {USAGE: usage}}})

    async def used(self, qos):
        """Return what the pods of a class use, by the last report."""
        metrics = (await self.ask("GET", NODE_METRIC))["status"]["podsMetric"]
        return [each["podUsage"]["resources"]["cpu"] for each in metrics if each["qos"] == qos]


@pytest.fixture
async def site():
    made = Site()
    running = asyncio.ensure_future(made.plane.run())
    await made.plane.wait_ready()
    try:
        yield made
        if running.done():
            running.result()
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def test_nothing_is_offered_before_the_configmap_enables_it(site):
    await asyncio.sleep(400)
    assert await site.offered() is None


async def test_a_node_offers_what_nobody_uses_and_batch_pods_run_on_it(site):
    await site.enable()
    await site.apply("web.yaml")
    await site.until_running("web", 2)
    await site.until_offered(30600)
    memory = 256 * 2**30
    assert await site.offered("kubernetes.io/batch-memory") == memory - memory * 35 // 100 - 42 * 2**30
    await site.apply("batch.yaml")
    await site.until_running("batch", 4)
    requested = 2 * 25 + 4 * 6
    assert requested > 64
    await asyncio.sleep(20)
    assert await site.used("BE") == ["6000m"] * 4


async def test_batch_pods_are_held_back_and_none_ends_when_the_service_gets_busy(site):
    await site.enable()
    await site.apply("web.yaml")
    await site.until_offered(30600)
    await site.apply("batch.yaml")
    await site.until_running("batch", 4)
    await site.use("web", "cpu=16,memory=20Gi")
    await asyncio.sleep(20)
    assert await site.used("BE") == ["2150m"] * 4
    assert await site.until_offered(24000) == 24000  # no less than they hold
    await asyncio.sleep(300)
    assert len(await site.pods("batch")) == 4
    await site.use("web", "cpu=5,memory=20Gi")
    await asyncio.sleep(20)
    assert await site.used("BE") == ["6000m"] * 4


async def test_a_batch_pod_more_than_fits_waits(site):
    await site.enable()
    await site.apply("web.yaml")
    await site.until_offered(30600)
    await site.apply("batch.yaml")
    await site.until_running("batch", 4)
    await site.ask("PATCH", f"{PATHS['Deployment']}/batch", {"spec": {"replicas": 6}})
    await asyncio.sleep(10)
    phases = sorted(pod["status"]["phase"] for pod in await site.pods("batch"))
    assert phases == ["Pending", *["Running"] * 5]


async def test_a_node_that_stops_to_report_offers_what_its_batch_pods_hold(site):
    await site.enable()
    await site.apply("web.yaml")
    await site.until_offered(30600)
    await site.apply("batch.yaml")
    await site.until_running("batch", 4)
    await site.ask("PATCH", NODE, {"metadata": {"annotations": {SILENT: "true"}}})
    await asyncio.sleep(14 * 60)
    assert await site.offered() == 30600
    await site.until_offered(24000, seconds=180)


async def test_a_configmap_that_goes_leaves_what_is_held_and_then_nothing(site):
    await site.enable()
    await site.apply("web.yaml")
    await site.until_offered(30600)
    await site.apply("batch.yaml")
    await site.until_running("batch", 4)
    await site.ask("DELETE", CONFIG_MAP)
    await site.until_offered(24000)
    await site.ask("DELETE", f"{PATHS['Deployment']}/batch")
    await site.until_offered(None)


async def test_a_value_that_cannot_be_used_changes_nothing(site):
    await site.enable()
    await site.apply("web.yaml")
    await site.until_offered(30600)
    bad = json.dumps({"enable": True, "cpuReclaimThresholdPercent": "much"})
    await site.ask("PATCH", CONFIG_MAP, {"data": {"colocation-config": bad}})
    await asyncio.sleep(60)
    assert await site.offered() == 30600


async def test_a_profile_makes_a_batch_pod_of_a_plain_one(site):
    await site.enable()
    await site.apply("profile.yaml", "report.yaml")
    pod = await site.ask("GET", f"{PATHS['Pod']}/report")
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["priorityClassName"] == "koord-batch"
    assert container["resources"]["requests"] == {BATCH_CPU: "570", "kubernetes.io/batch-memory": "1Gi"}


AGENTS = {"component": "node-agents", "resource": "nodemetrics*"}


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(FaultRule(fault=Fault.LOST, times=3, **AGENTS), id="lost"),
        pytest.param(FaultRule(fault=Fault.ERROR, times=3, **AGENTS), id="error"),
        pytest.param(FaultRule(fault=Fault.CRASH, times=1, **AGENTS), id="crash"),
        pytest.param(
            FaultRule(fault=Fault.CONFLICT, component="controller", resource="nodes*", times=3), id="conflict"
        ),
    ],
)
async def test_faults_delay_what_is_offered_and_do_not_change_it(site, rule):
    site.plane.faults.set([rule])
    await site.enable()
    await site.apply("web.yaml")
    await site.until_offered(30600, seconds=400)
