"""Containers get what is found of NVIDIA's driver, wherever it is installed."""

import itertools

import pytest

from kubeletplugin.contract import ContainerEdits, DeviceNode, Hook, Mount
from kubeletplugin.drivers.gpu.container_edits import GrantedConfig
from kubeletplugin.drivers.gpu.driver_root import DriverRoot
from kubeletplugin.drivers.gpu.nvidia_container_edits import MOUNT_OPTIONS, NvidiaContainerEdits
from kubeletplugin.inventory.gpus import Gpu

VERSION = "570.86.15"
FOLDER = "/usr/lib/x86_64-linux-gnu"


def install(root, *, version=VERSION, programs=("nvidia-smi",), nodes=("nvidiactl", "nvidia-uvm", "nvidia0")):
    """Install a driver as its package does; device nodes are plain files here, making real ones takes rights."""
    folder = root / FOLDER[1:]
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("libcuda.so", "libnvidia-ml.so"):
        (folder / f"{name}.{version}").touch()
        for link in (f"{name}.1", name):
            (folder / link).unlink(missing_ok=True)
        (folder / f"{name}.1").symlink_to(f"{name}.{version}")
        (folder / name).symlink_to(f"{name}.1")
    (folder / "libc.so.6").touch()
    for path in (*(f"usr/bin/{name}" for name in programs), *(f"dev/{name}" for name in nodes)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch(mode=0o755)
    return root


def mount(path, name=None, host="/run/nvidia/driver"):
    return Mount(host_path=f"{host}{path}", container_path=name or path, options=MOUNT_OPTIONS)


def edits(root, host="/run/nvidia/driver"):
    return NvidiaContainerEdits(DriverRoot(here=root, host=host))


def test_libraries_are_there_under_all_their_names(tmp_path):
    common = edits(install(tmp_path)).common(VERSION)
    names = [(name, link) for name in ("libcuda.so", "libnvidia-ml.so") for link in (f".{VERSION}", "", ".1")]
    assert common.mounts == (
        *(mount(f"{FOLDER}/{name}.{VERSION}", f"{FOLDER}/{name}{link}") for name, link in names),
        mount("/usr/bin/nvidia-smi"),
    )
    assert common.hooks == ()


def test_the_toolkits_hook_makes_the_links_where_it_is_installed(tmp_path):
    common = edits(install(tmp_path, programs=("nvidia-cdi-hook", "nvidia-ctk"))).common(VERSION)
    assert [each.container_path for each in common.mounts] == [
        f"{FOLDER}/libcuda.so.{VERSION}",
        f"{FOLDER}/libnvidia-ml.so.{VERSION}",
    ]
    links = [
        f"{name}.{VERSION}::{FOLDER}/{name}{link}" for name in ("libcuda.so", "libnvidia-ml.so") for link in ("", ".1")
    ]

    def hook(*args):
        return Hook(
            hook_name="createContainer",
            path="/run/nvidia/driver/usr/bin/nvidia-cdi-hook",
            args=("nvidia-cdi-hook", *args),
            env=("NVIDIA_CTK_DEBUG=false",),
        )

    options = itertools.chain.from_iterable(("--link", each) for each in links)
    assert common.hooks == (hook("create-symlinks", *options), hook("update-ldcache", "--folder", FOLDER))


def test_an_older_toolkit_has_its_hooks_under_another_name(tmp_path):
    host = tmp_path / "host"
    (host / "usr" / "bin").mkdir(parents=True)
    (host / "usr" / "bin" / "nvidia-ctk").touch(mode=0o755)
    root = DriverRoot(here=install(tmp_path / "driver"), host="/run/nvidia/driver")
    subject = NvidiaContainerEdits(root, host=DriverRoot(here=host))
    hooks = subject.common(VERSION).hooks
    assert [(each.path, each.args[:3]) for each in hooks] == [
        ("/usr/bin/nvidia-ctk", ("nvidia-ctk", "hook", "create-symlinks")),
        ("/usr/bin/nvidia-ctk", ("nvidia-ctk", "hook", "update-ldcache")),
    ]


def test_control_nodes_that_are_there_are_given_and_the_runtime_of_nvidia_kept_out(tmp_path):
    common = edits(install(tmp_path, nodes=("nvidiactl", "nvidia-uvm", "nvidia-modeset"))).common(VERSION)
    assert common.env == ("NVIDIA_VISIBLE_DEVICES=void",)
    assert common.device_nodes == tuple(
        DeviceNode(path=f"/dev/{name}", host_path=f"/run/nvidia/driver/dev/{name}")
        for name in ("nvidiactl", "nvidia-uvm", "nvidia-modeset")
    )


@pytest.mark.parametrize(
    ("nodes", "host", "host_path"),
    [
        pytest.param(
            ("nvidiactl",), "/run/nvidia/driver", "/run/nvidia/driver/dev/nvidia3", id="of-a-driver-container"
        ),
        pytest.param((), "/run/nvidia/driver", "", id="of-the-host"),
        pytest.param(("nvidiactl",), "/", "", id="driver-on-the-host"),
    ],
)
def test_a_gpu_is_its_device_node(tmp_path, nodes, host, host_path):
    gpu = Gpu(minor=3, index=1, uuid="GPU-3", nodes=("/dev/nvidia3",))
    subject = edits(install(tmp_path, nodes=nodes), host=host)
    assert subject.device(gpu, GrantedConfig(memory_limit=1024)) == ContainerEdits(
        env=("GPU_DEVICE_3=GPU-3", "GPU_DEVICE_3_MEMORY_LIMIT=1024"),
        device_nodes=(DeviceNode(path="/dev/nvidia3", host_path=host_path),),
    )


def test_a_new_driver_is_found(tmp_path):
    subject = edits(install(tmp_path))
    before = subject.common(VERSION)
    assert subject.common(VERSION) is before
    install(tmp_path, version="580.1.2")
    assert {each.host_path.rpartition(".so.")[2] for each in subject.common("580.1.2").mounts[:-1]} == {"580.1.2"}


def test_a_driver_that_is_being_installed_is_looked_for_again(tmp_path):
    subject = edits(tmp_path)
    assert subject.common(VERSION).mounts == ()
    install(tmp_path)
    assert subject.common(VERSION).mounts


def test_one_library_under_two_folders_is_mounted_once(tmp_path):
    install(tmp_path)
    (tmp_path / "lib").symlink_to("usr/lib")
    assert [each.path for each in DriverRoot(here=tmp_path).libraries(VERSION)] == [
        f"{FOLDER}/libcuda.so.{VERSION}",
        f"{FOLDER}/libnvidia-ml.so.{VERSION}",
    ]


def test_programs_away_from_the_root_are_given_their_library(tmp_path):
    root = DriverRoot(here=install(tmp_path))
    assert root.environment()["LD_PRELOAD"] == f"{tmp_path}{FOLDER}/libnvidia-ml.so.1"
    assert "LD_PRELOAD" not in DriverRoot().environment()
