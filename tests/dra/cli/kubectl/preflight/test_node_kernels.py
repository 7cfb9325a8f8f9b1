"""What the kernels of the nodes can do for colocation, by their NodeMetrics."""

from pathlib import Path

import pytest
import yaml

from dra.cli.kubectl.checklist import CheckState
from dra.cli.kubectl.preflight.node_kernels import check_kernels, judge_kernels
from dra.engine.colocation.kernel_features import FeatureName, KernelFacts, kernel_features
from dra.engine.resctrl.tree import ResctrlTree
from dra.kube.client import Client
from dra.kube.discovery import Discovery
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import Request
from dra.model.node_metrics import KernelFeature
from localplane.objects import encode
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded

CRD = yaml.safe_load((Path(__file__).parents[5] / "crds/nodemetrics.slo.koordinator.sh.yaml").read_text())
CRD_VERSION = "slo.koordinator.sh/v1alpha1"
ALL = (FeatureName.CPU_QUOTA, FeatureName.CPU_BURST, FeatureName.CPUSET)


def kernel(*names, cgroups="v1"):
    return kernel_features(
        KernelFacts(files=dict.fromkeys(names, "file"), cgroups=cgroups, resctrl=ResctrlTree(supported=True))
    )


@pytest.mark.parametrize(
    ("kernels", "state", "texts"),
    [
        pytest.param({}, CheckState.OK, ["no NodeMetrics"], id="colocation-is-off"),
        pytest.param({"n1": ()}, CheckState.UNKNOWN, ["1 NodeMetrics, none with features"], id="another-agent-reports"),
        pytest.param(
            {"n1": kernel(*ALL), "n2": kernel(FeatureName.CPU_QUOTA)},
            CheckState.OK,
            [
                "of 2 nodes: cpuQuota 2, cpuBurst 1, cpuset 1, cpuPressure 0, resctrl 0",
                "no cpuBurst on n2 (cgroup v1: no file for it, so containers have no burst)",
                "no cpuPressure on n1, n2",
                "mount -t resctrl resctrl /sys/fs/resctrl",
            ],
            id="some-lack-something",
        ),
        pytest.param(
            {"n1": kernel(*ALL), "n2": kernel(FeatureName.CPU_BURST), "n3": ()},
            CheckState.WARNING,
            ["not reported by n3"],
            id="one-cannot-hold-batch-pods-back",
        ),
        pytest.param(
            {f"n{number}": kernel() for number in range(10)},
            CheckState.WARNING,
            ["no cpuQuota on n0, n1, n2 and 7 more"],
            id="names-are-bounded",
        ),
        pytest.param(
            {"n1": (KernelFeature(name="cpuQuota", usable=True), KernelFeature(name="later", text="new"))},
            CheckState.OK,
            ["of 1 nodes: cpuQuota 1"],
            id="a-newer-build-reports-more",
        ),
    ],
)
def test_nodes_are_summed_up_and_what_is_missing_is_named(kernels, state, texts):
    result = judge_kernels(kernels)
    assert result.state is state
    assert [text for text in texts if text not in result.detail] == []
    assert (result.remedy is not None) == (state is CheckState.WARNING)


def test_a_remedy_names_the_nodes_that_cannot_hold_batch_pods_back():
    result = judge_kernels({"n1": kernel(*ALL), "n2": kernel(FeatureName.CPU_BURST)})
    assert result.remedy.text.startswith("leave n2 out of colocation")


async def test_where_no_nodemetrics_are_served_nothing_is_wrong():
    transport = LocalTransport(ApiServer(api=Dialect.STOCK, random=seeded(1)))
    client = Client(transport, RateLimiter(1000.0, 1000.0))
    result = await check_kernels(client, Discovery(client))
    assert (result.state, result.detail) == (CheckState.OK, "NodeMetrics are not served (the default)")


async def test_nodemetrics_are_read_with_what_their_status_says():
    server = ApiServer(api=Dialect.STOCK, random=seeded(1))
    features = [{"name": "cpuQuota", "usable": True, "text": "cgroup v2: cpu.max"}]
    path = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
    await create(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    for name, status in (("n1", {"features": features}), ("n2", {"nodeMetric": {}})):
        await create(server, path, {"apiVersion": CRD_VERSION, "kind": "NodeMetric", "metadata": {"name": name}})
        await send(server, "PATCH", f"{path}/{name}/status", {"status": status}, "application/merge-patch+json")
    client = Client(LocalTransport(server), RateLimiter(1000.0, 1000.0))
    result = await check_kernels(client, Discovery(client))
    assert result.state is CheckState.OK
    assert result.detail.startswith("of 1 nodes: cpuQuota 1, ")
    assert result.detail.endswith("not reported by n2")


async def create(server, path, body):
    await send(server, "POST", path, body, "application/json")


async def send(server, method, path, body, content_type):
    request = Request(method=method, path=path, body=encode(body), content_type=content_type, timeout=5.0)
    assert (await server.handle(request)).status in (200, 201)
