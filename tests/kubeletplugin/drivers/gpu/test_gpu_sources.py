"""A second vendor is an inventory, a class of container edits, and a row: the driver knows no vendor."""

import ast
import re
from pathlib import Path

import pytest

from dra.model.claims import DeviceRequestAllocationResult
from kubeletplugin.contract import ClaimIdentity, ContainerEdits, DeviceNode, PrepareError, PrepareRequest
from kubeletplugin.driver_factory import DriverOptions, UnusableDriverError, create_drivers
from kubeletplugin.drivers.gpu import gpu_sources
from kubeletplugin.drivers.gpu.container_edits import device_environment
from kubeletplugin.drivers.gpu.gpu_driver_factory import UnknownInventoryError, create_gpu_driver
from kubeletplugin.drivers.gpu.gpu_sources import GPU_SOURCES, GpuSource
from kubeletplugin.inventory.gpus import Gpu, GpusUnavailableError
from tests.kubeletplugin.drivers.gpu.test_driver import interval

ROOT = Path(__file__).parents[4] / "kubeletplugin"
COMMON = (
    *("container_edits", "device_names", "device_report", "devices", "driver", "gpu_driver_factory"),
    *("prepared_gpus", "time_slices"),
)
VENDOR_WORDS = re.compile(r"nvidia(?!_root)|nvml|cuda|(?<![a-z])mig(?![a-z])", re.IGNORECASE)


def names_and_texts(tree):
    """Yield identifiers, imported modules and strings of a module; docstrings may compare vendors."""
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
        for field in ("id", "attr", "arg", "name", "module"):
            if isinstance(word := getattr(node, field, None), str):
                yield word


def test_the_common_part_of_the_driver_names_no_vendor():
    files = [ROOT / "drivers" / "gpu" / f"{name}.py" for name in COMMON]
    files += [ROOT / "inventory" / "gpus.py", ROOT / "inventory" / "gpu_use.py", ROOT / "inventory" / "pci.py"]
    assert [
        (file.name, text)
        for file in files
        for text in names_and_texts(ast.parse(file.read_text(encoding="utf-8")))
        if VENDOR_WORDS.search(text)
    ] == []


class AcmeInventory:
    """What the module of another vendor has."""

    gone = False

    def read(self):
        if self.gone:
            raise GpusUnavailableError("ACME's library cannot be loaded")
        return (
            Gpu(minor=0, index=0, uuid="ACME-1", vendor="acme", versions={"acmeVersion": "2.1"}, nodes=("/dev/a0",)),
        )

    async def changes(self, _):
        return
        yield


class AcmeEdits:
    """The other module."""

    def common(self, _):
        return ContainerEdits(env=("ACME=true",))

    def device(self, gpu, granted):
        nodes = tuple(DeviceNode(path=path) for path in gpu.nodes)
        return ContainerEdits(env=device_environment(gpu, granted), device_nodes=nodes)

    def flaw(self, _):
        return ""


@pytest.fixture
def acme(monkeypatch):
    """The row."""
    row = GpuSource(lambda _: AcmeInventory(), lambda _: AcmeEdits())
    monkeypatch.setattr("kubeletplugin.drivers.gpu.gpu_driver_factory.GPU_SOURCES", {**GPU_SOURCES, "acme": row})


def request(*configuration):
    result = DeviceRequestAllocationResult(request="gpu", driver="gpu.reserve.dra", pool="n1", device="gpu-0")
    claim = ClaimIdentity(key=("ml", "train"), uid="uid-train")
    return PrepareRequest(claim=claim, results=(result,), configuration=configuration)


@pytest.mark.usefixtures("acme")
def test_another_vendor_needs_an_inventory_edits_and_a_row(tmp_path):
    driver = create_gpu_driver("acme", node="n1", folder=tmp_path)
    (device,) = driver.pools()[0].devices
    assert device.attributes["acmeVersion"] == {"version": "2.1.0"}
    assert driver.device_report(()).labels["node.koordinator.sh/gpu-vendor"] == "acme"
    prepared = driver.prepare(request(), ())
    assert prepared.common.env == ("ACME=true",)
    assert [node.path for node in prepared.devices[0].edits.device_nodes] == ["/dev/a0"]
    with pytest.raises(PrepareError, match="Long cannot be set: these GPUs have no time slices"):
        driver.prepare(request(interval("Long")), ())


@pytest.mark.usefixtures("acme")
def test_an_inventory_that_is_unavailable_is_told_and_the_driver_waits_where_claims_were_prepared(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(AcmeInventory, "gone", True)
    options = DriverOptions(drivers=("gpu",), node="n1", inventory="acme", plugins=tmp_path)
    with pytest.raises(UnusableDriverError, match="ACME's library cannot be loaded"):
        create_drivers(options)
    (tmp_path / "gpu.reserve.dra" / "checkpoint.json").write_text("whatever")
    (driver,) = create_drivers(options)
    assert "ACME's library cannot be loaded" in driver.degraded_reason


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize("source", ["magic", "nvml:x", "simulated", "simulated:", "Acme"])
def test_a_source_that_no_row_has_is_refused_with_those_there_are(source, tmp_path):
    with pytest.raises(UnknownInventoryError, match=r"unknown; use nvml, sysfs, simulated:FILE or acme$"):
        create_gpu_driver(source, node="n1", folder=tmp_path)


def test_the_source_of_another_vendor_loads_no_library_of_nvidia():
    statements = ast.parse(Path(gpu_sources.__file__).read_text()).body
    imported = {statement.module for statement in statements if isinstance(statement, ast.ImportFrom)}
    assert not {module for module in imported if "nvidia" in module or "nvml" in module}
