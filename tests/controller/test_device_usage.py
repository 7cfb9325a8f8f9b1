"""The gauges of devices by namespace, workload and class, from what an API server has."""

import asyncio

from controller.device_usage import DeviceUsage
from controller.informers import ControllerInformers
from dra.engine.device_usage.history import HELD_METRIC, USED_METRIC
from dra.kube.tasks import background_task
from tests.controller.cluster import NODE_METRICS, SLICES, Cluster
from tests.dra.engine.device_usage.test_gpu_activity import GPU
from tests.dra.engine.device_usage.test_groups import HELD
from tests.dra.engine.examples import observe_all, pod

GROUP = {"claim_namespace": "ml", "workload": "jobs.batch/train", "device_class": "gpus"}
PERCENTS = {"GPU-0": "80", "GPU-1": "0"}


def put_gpus(cluster, clock):
    devices = [{"name": f"gpu-{n}", "attributes": {"uuid": {"string": f"GPU-{n}"}}} for n in range(2)]
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    cluster.put(SLICES, "", "s", spec={"driver": GPU.driver, "nodeName": "n1", "pool": pool, "devices": devices})
    reported = [
        {"type": "gpu", "id": uuid, "resources": {"koordinator.sh/gpu-core": percent}}
        for uuid, percent in PERCENTS.items()
    ]
    status = {
        "updateTime": clock.wall().isoformat(),
        "nodeMetric": {"nodeUsage": {"resources": {"cpu": "1"}, "devices": reported}},
    }
    cluster.put(NODE_METRICS, "", "n1", status=status)


async def test_a_gpu_that_computes_nothing_is_held_and_not_used(world, metrics, runtime_of, clock):
    cluster = Cluster()
    put_gpus(cluster, clock)
    observe_all(world, HELD, pod("a", node="n1"))
    runtime = runtime_of(cluster)
    informers = ControllerInformers(runtime.client, clock=clock)
    usage = DeviceUsage(runtime, informers, cache=world)
    usage.watch_gpus()
    metrics.count_workload_devices(lambda: usage.numbers)
    async with background_task(informers.run(), name="watches"):
        await asyncio.sleep(1.0)
        await usage.count()
        numbers = [metrics.registry.get_sample_value(name, GROUP) for name in (HELD_METRIC, USED_METRIC)]
        assert numbers == [2.0, 1.0]


async def test_without_node_metrics_devices_are_used_by_pods(world, metrics, runtime_of, clock):
    observe_all(world, HELD, pod("a", node="n1"))
    runtime = runtime_of(Cluster())
    usage = DeviceUsage(runtime, ControllerInformers(runtime.client, clock=clock), cache=world)
    metrics.count_workload_devices(lambda: usage.numbers)
    await usage.count()
    assert metrics.registry.get_sample_value(USED_METRIC, GROUP) == 2.0
