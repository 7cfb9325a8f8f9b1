"""The driver put together; and the examples, through the API server's rules and CEL, down to the CDI file."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from dra.cel.device_selectors import CompiledSelector, device_input
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.meta import Uid
from kubeletplugin import cdi
from kubeletplugin.contract import (
    ClaimIdentity,
    OpaqueParameters,
    PreparedClaim,
    PreparedDevice,
    PrepareError,
    PrepareRequest,
)
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.gpu_driver_factory import UnknownInventoryError, create_gpu_driver
from kubeletplugin.inventory.nvml import NvmlUnavailableError
from kubeletplugin.slices import validation
from tests.kubeletplugin.inventory.pynvml import Nvml, device
from tests.localplane.kinds.registry_client import RegistryClient, refused

EXAMPLES = Path(__file__).parents[4] / "examples" / "gpus"
INVENTORIES = sorted(each.name for each in EXAMPLES.glob("inventory-*.yaml"))


def example(name):
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def simulated(name):
    return create_gpu_driver(f"simulated:{EXAMPLES / name}", node="n1", folder=Path("/nowhere"))


@pytest.mark.parametrize("name", ["classes.yaml", "claim.yaml"])
def test_the_api_server_takes_the_examples(name):
    for obj in example(name):
        assert refused(RegistryClient().create, obj) == []


@pytest.mark.parametrize("name", INVENTORIES)
def test_what_the_examples_publish_is_within_the_limits(name):
    driver = simulated(name)
    for pool in driver.pools():
        validation.validate_pool(pool, driver=driver.name)


@pytest.mark.parametrize(
    ("name", "large"),
    [
        pytest.param("inventory-8xh100.yaml", 8, id="8xh100"),
        pytest.param("inventory-mixed.yaml", 6, id="mixed"),
        pytest.param("inventory-one.yaml", 0, id="one"),
    ],
)
def test_the_classes_select(name, large):
    every, big = ([each["cel"]["expression"] for each in obj["spec"]["selectors"]] for obj in example("classes.yaml"))
    (pool,) = simulated(name).pools()

    def chosen(expressions):
        selectors = [CompiledSelector(each) for each in expressions]
        seen = [device_input("gpu.reserve.dra", device) for device in pool.devices]
        return sum(all(selector.evaluate(device) for selector in selectors) for device in seen)

    assert (chosen(every), chosen(big)) == (len(pool.devices), large)


def test_a_broken_gpu_of_the_example_is_tainted():
    (pool,) = simulated("inventory-mixed.yaml").pools()
    assert [(each.name, [str(taint) for taint in each.taints]) for each in pool.devices if each.taints] == [
        ("gpu-7", ["gpu.reserve.dra/ecc:NoSchedule"])
    ]


def test_the_claim_of_the_example_becomes_a_cdi_file():
    driver = simulated("inventory-8xh100.yaml")
    (config,) = example("claim.yaml")[0]["spec"]["devices"]["config"]
    parameters = OpaqueParameters(requests=tuple(config["requests"]), parameters=config["opaque"]["parameters"])
    request = PrepareRequest(
        claim=ClaimIdentity(key=("default", "train"), uid=Uid("b1a7")),
        results=tuple(
            DeviceRequestAllocationResult(request="gpus", driver=driver.name, pool="n1", device=name)
            for name in ("gpu-0", "gpu-1")
        ),
        configuration=(parameters,),
    )
    document = json.loads(json.dumps(cdi.build_spec(driver.prepare(request, ()))))
    assert document["kind"] == "gpu.reserve.dra/claim"
    assert document["containerEdits"] == {"env": ["GPU_SIMULATED=true"]}
    assert [each["name"] for each in document["devices"]] == ["b1a7-0", "b1a7-1"]
    first = document["devices"][0]["containerEdits"]
    assert first["deviceNodes"] == [{"path": "/dev/simgpu0", "hostPath": "/dev/null", "permissions": "rw"}]
    assert first["env"][1] == "GPU_DEVICE_0_TIME_SLICE=Long"


def test_a_word_that_is_no_inventory_is_told(tmp_path):
    with pytest.raises(UnknownInventoryError, match="inventory 'magic': unknown; use nvml, sysfs or"):
        create_gpu_driver("magic", node="n1", folder=tmp_path)


def test_a_node_that_should_use_nvml_and_cannot_says_so(tmp_path):
    (tmp_path / "usr" / "lib64").mkdir(parents=True)
    (tmp_path / "usr" / "lib64" / "libnvidia-ml.so.1").write_text("no library")
    with pytest.raises(NvmlUnavailableError, match="NVML cannot be loaded"):
        create_gpu_driver("nvml", node="n1", folder=tmp_path, root=DriverRoot(here=tmp_path))


def test_a_node_without_gpus_offers_an_empty_pool(tmp_path):
    (pool,) = create_gpu_driver("sysfs", node="n1", folder=tmp_path).pools()
    assert pool.name == "n1"


def prepared_before():
    """A claim that has a GPU since NVML was there."""
    return PreparedClaim(
        claim=ClaimIdentity(key=("ml", "train"), uid="uid-train"),
        driver="gpu.reserve.dra",
        devices=(PreparedDevice(requests=("gpu",), pool="n1", device="gpu-0"),),
    )


class Reborn:
    """NVML that is not there at first."""

    def __init__(self):
        self.there = False

    def load(self, _=None):
        if not self.there:
            raise NvmlUnavailableError("NVML cannot be loaded: no driver")
        return Nvml(device(0))


async def test_a_node_whose_driver_is_gone_lets_pods_end_and_offers_its_gpus_when_it_is_back(tmp_path, monkeypatch):
    nvml = Reborn()
    monkeypatch.setattr("kubeletplugin.inventory.nvml.load_nvml", nvml.load)
    monkeypatch.setattr("kubeletplugin.drivers.gpu.driver.RETRY_INTERVAL", 0.01)
    with pytest.raises(NvmlUnavailableError):
        create_gpu_driver("nvml", node="n1", folder=tmp_path, root=DriverRoot(here=tmp_path))
    (tmp_path / "checkpoint.json").write_text("whatever")
    driver = create_gpu_driver("nvml", node="n1", folder=tmp_path, root=DriverRoot(here=tmp_path))
    assert (
        driver.degraded_reason
        == "node n1: no GPU is published or prepared, claims are only unprepared: NVML cannot be loaded: no driver"
    )
    assert [pool.devices for pool in driver.pools()] == [()]
    await driver.enforce((held := prepared_before(),))
    assert [(each.healthy, each.message) for each in driver.health()] == [(None, driver.degraded_reason)]
    with pytest.raises(PrepareError, match=r"claim ml/train .*NVML cannot be loaded"):
        driver.recheck(held)  # nobody can tell whether gpu-0 is the GPU that it had
    changes = driver.changes()
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    nvml.there = True
    await asyncio.wait_for(waiting, 5)
    assert driver.degraded_reason == ""
    assert [each.name for pool in driver.pools() for each in pool.devices] == ["gpu-0"]
    await changes.aclose()
