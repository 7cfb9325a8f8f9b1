"""What a plugin loads on each node: only what the node's drivers use."""

import subprocess
import sys

import pytest

PARTS = [
    "dra.cli.kubelet_plugin",
    "dra.cli.server_process",
    "kubeletplugin.application",
    "dra.telemetry.logs",
    "dra.kube.http",
    "dra.kube.credentials",
]


def loaded(*modules):
    program = f"import sys, importlib; [importlib.import_module(m) for m in {modules!r}]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "driver",
    [
        pytest.param(("kubeletplugin.drivers.gpu.gpu_driver_factory", "kubeletplugin.inventory.nvml"), id="gpu"),
        pytest.param(("kubeletplugin.drivers.cpu.driver", "kubeletplugin.inventory.sysfs_cpus"), id="cpu"),
    ],
)
def test_a_plugin_without_colocation_loads_neither_cel_nor_pydantic(driver):
    modules = loaded(*PARTS, *driver)
    assert {module.partition(".")[0] for module in modules} & {
        "cel_expr_python",
        "pydantic",
        "kubernetes",
        "yaml",
    } == set()


def test_a_plugin_with_colocation_loads_nothing_of_the_allocator():
    """It counts the requests of pods, and allocates no devices: the allocator and its CEL would take 1 MiB."""
    modules = loaded(*PARTS, "kubeletplugin.colocation.node_agent")
    assert not {
        module for module in modules if module.startswith(("dra.engine.allocator", "dra.cel", "cel_expr_python"))
    }
