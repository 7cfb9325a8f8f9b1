"""The default CPU bind policy, read where the controller reads it."""

import pytest

from dra.api.configuration import ControllerConfiguration
from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.cli.kubectl.snapshots import controller_settings
from dra.cli.kubectl.snapshots.controller_settings import read_default_cpu_bind_policy
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.cli.kubectl.snapshots.test_deployment_reader import NAMESPACE, PATH, ForbiddingServer, request
from tests.dra.kube.virtual import seeded

LABELS = {"app.kubernetes.io/name": "dra-reserve"}


def client_of(server):
    return Client(LocalTransport(server), RateLimiter(1e6, 1e6))


async def install(server, name, *, component, config=None):
    selector = {"app.kubernetes.io/component": component}
    volumes = [{"name": "tmp", "emptyDir": {}}, {"name": "config", "configMap": {"name": f"{name}-config"}}]
    spec = {"containers": [{"name": "main", "image": "x"}], "volumes": volumes}
    template = {"metadata": {"labels": selector}, "spec": spec}
    deployment = {"metadata": {"name": name, "labels": LABELS}, "spec": {"selector": {"matchLabels": selector}}}
    deployment["spec"]["template"] = template
    await request(server, "POST", PATH, deployment)
    if config is not None:
        made = {"metadata": {"name": f"{name}-config"}, "data": {"config.yaml": config}}
        await request(server, "POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", made)


@pytest.mark.parametrize(
    ("config", "policy"),
    [
        pytest.param("defaultCPUBindPolicy: SpreadByPCPUs\n", CpuBindPolicy.SPREAD_BY_PCPUS, id="configured"),
        pytest.param("mode: replace\n", CpuBindPolicy.FULL_PCPUS, id="not-configured"),
        pytest.param("defaultCPUBindPolicy: Other\n", None, id="of-a-later-build"),
        pytest.param("[", None, id="no-yaml"),
        pytest.param("text", None, id="no-mapping"),
        pytest.param(None, None, id="no-config-map"),
    ],
)
async def test_the_policy_is_that_of_the_controllers_config_map(config, policy):
    server = ApiServer(random=seeded(1))
    await request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    await install(server, "descheduler", component="descheduler", config="defaultCPUBindPolicy: Other\n")
    await install(server, "controller", component="controller", config=config)
    assert await read_default_cpu_bind_policy(client_of(server), namespace=NAMESPACE) == policy


async def test_a_policy_that_may_not_be_read_is_unknown():
    client = Client(LocalTransport(ForbiddingServer()), RateLimiter(1e6, 1e6))
    assert await read_default_cpu_bind_policy(client, namespace=NAMESPACE) is None


def test_the_default_is_that_of_the_configuration():
    assert ControllerConfiguration().default_cpu_bind_policy is controller_settings.DEFAULT_POLICY
