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


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root: (root / "dev/nvidia-uvm-tools").touch(), id="a-control-node-comes"),
        pytest.param(lambda root: (root / "dev/nvidia-uvm").unlink(), id="a-control-node-goes"),
        pytest.param(lambda root: (root / FOLDER[1:] / f"libnvcuvid.so.{VERSION}").touch(), id="a-library-comes"),
        pytest.param(lambda root: (root / FOLDER[1:] / f"libnvidia-ml.so.{VERSION}").unlink(), id="a-library-goes"),
        pytest.param(
            lambda root: (root / FOLDER[1:] / "libcuda.so.2").symlink_to(f"libcuda.so.{VERSION}"), id="a-link-comes"
        ),
        pytest.param(lambda root: (root / FOLDER[1:]).rename(root / "usr/lib64"), id="the-folder-moves"),
        pytest.param(lambda root: (root / "usr/bin/nvidia-smi").unlink(), id="a-program-goes"),
        pytest.param(lambda root: (root / "usr/bin/nvidia-smi").chmod(0o644), id="a-program-cannot-be-started"),
        pytest.param(
            lambda root: (root / "usr/bin/nvidia-cdi-hook").rename(root / "usr/bin/nvidia-ctk"), id="the-hook-moves"
        ),
        pytest.param(lambda root: (root / "usr/bin/nvidia-cdi-hook").unlink(), id="the-toolkit-goes"),
    ],
)
@pytest.mark.parametrize("settled", [True, False], ids=["long-after-a-change", "right-after-a-change"])
def test_what_was_found_once_is_looked_for_again(tmp_path, monkeypatch, change, settled):
    monkeypatch.setattr("kubeletplugin.drivers.gpu.driver_root.SETTLING_SECONDS", 0.0 if settled else 1e9)
    root = install(tmp_path, programs=("nvidia-smi", "nvidia-cdi-hook"))
    subject = edits(root)
    before = subject.common(VERSION)
    change(root)
    after = subject.common(VERSION)
    assert after == edits(root).common(VERSION)
    assert after != before


def test_folders_of_libraries_are_not_read_again_without_a_change(tmp_path, monkeypatch):
    subject = edits(install(tmp_path))
    monkeypatch.setattr("kubeletplugin.drivers.gpu.driver_root.SETTLING_SECONDS", 0.0)
    before = subject.common(VERSION)
    monkeypatch.setattr(DriverRoot, "_scan", None)
    assert subject.common(VERSION) is before


@pytest.mark.parametrize(
    ("folder", "seen_as"),
    [
        pytest.param("run/opengl-driver/lib", "/run/opengl-driver/lib", id="nixos"),
        pytest.param("var/lib/nvidia/lib64", "/usr/local/nvidia/lib64", id="container-optimized-os"),
        pytest.param("home/kubernetes/bin/nvidia/lib64", "/usr/local/nvidia/lib64", id="gke"),
    ],
)
def test_libraries_are_found_where_distributions_install_them(tmp_path, folder, seen_as):
    install(tmp_path)
    (tmp_path / folder).parent.mkdir(parents=True)
    (tmp_path / FOLDER[1:]).rename(tmp_path / folder)
    common = edits(tmp_path, host="/").common(VERSION)
    assert mount(f"/{folder}/libcuda.so.{VERSION}", f"{seen_as}/libcuda.so.1", host="") in common.mounts
    assert edits(tmp_path).flaw(Gpu(minor=0, index=0, driver_version=VERSION, nodes=("/dev/nvidia0",))) == ""


def test_links_into_a_store_lead_to_its_files_below_the_root(tmp_path):
    install(tmp_path)
    store = tmp_path / "nix/store/1a2b-nvidia-x11/lib"
    store.parent.mkdir(parents=True)
    (tmp_path / FOLDER[1:]).rename(store)
    drivers = tmp_path / "nix/store/3c4d-graphics-drivers/lib"
    drivers.mkdir(parents=True)
    for file in store.iterdir():
        (drivers / file.name).symlink_to(f"/nix/store/1a2b-nvidia-x11/lib/{file.name}")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/opengl-driver").symlink_to("/nix/store/3c4d-graphics-drivers")
    system = tmp_path / "nix/store/5e6f-system/sw/bin"
    system.mkdir(parents=True)
    (system / "nvidia-ctk").touch(mode=0o755)
    (tmp_path / "run/current-system").symlink_to("/nix/store/5e6f-system")
    common = edits(tmp_path, host="/").common(VERSION)
    folder = "/run/opengl-driver/lib"
    assert [(each.host_path, each.container_path) for each in common.mounts] == [
        (f"/nix/store/1a2b-nvidia-x11/lib/{name}.{VERSION}", f"{folder}/{name}.{VERSION}")
        for name in ("libcuda.so", "libnvidia-ml.so")
    ] + [("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi")]
    assert [each.path for each in common.hooks] == ["/run/current-system/sw/bin/nvidia-ctk"] * 2
    assert f"libcuda.so.{VERSION}::{folder}/libcuda.so.1" in common.hooks[0].args
    assert DriverRoot(here=tmp_path).program("nvidia-ctk") == system / "nvidia-ctk"
    assert DriverRoot(here=tmp_path).management_library() == store / f"libnvidia-ml.so.{VERSION}"


def test_links_in_a_circle_are_nothing(tmp_path):
    install(tmp_path)
    (tmp_path / FOLDER[1:] / f"libloop.so.{VERSION}").symlink_to("libloop.so")
    (tmp_path / FOLDER[1:] / "libloop.so").symlink_to(f"libloop.so.{VERSION}")
    assert [each.path for each in DriverRoot(here=tmp_path).libraries(VERSION)] == [
        f"{FOLDER}/libcuda.so.{VERSION}",
        f"{FOLDER}/libnvidia-ml.so.{VERSION}",
    ]


def test_a_driver_container_of_the_gpu_operator_is_found_below_the_host(tmp_path):
    install(tmp_path / "run/nvidia/driver")
    (tmp_path / "usr/local/nvidia/toolkit").mkdir(parents=True)
    (tmp_path / "usr/local/nvidia/toolkit/nvidia-cdi-hook").touch(mode=0o755)
    subject = edits(tmp_path, host="/")
    common = subject.common(VERSION)
    assert mount(f"{FOLDER}/libcuda.so.{VERSION}") in common.mounts
    assert common.device_nodes[0] == DeviceNode(path="/dev/nvidiactl", host_path="/run/nvidia/driver/dev/nvidiactl")
    assert [each.path for each in common.hooks] == ["/usr/local/nvidia/toolkit/nvidia-cdi-hook"] * 2
    gpu = Gpu(minor=0, index=0, uuid="GPU-0", driver_version=VERSION, nodes=("/dev/nvidia0",))
    assert subject.flaw(gpu) == ""
    assert subject.device(gpu, GrantedConfig()).device_nodes[0].host_path == "/run/nvidia/driver/dev/nvidia0"


def test_the_toolkit_of_the_host_and_its_nodes_serve_a_driver_in_another_root(tmp_path):
    here = install(tmp_path / "host/run/nvidia/driver", nodes=())
    for name in ("dev/nvidiactl", "dev/nvidia-uvm", "dev/nvidia0", "usr/local/nvidia/toolkit/nvidia-cdi-hook"):
        (tmp_path / "host" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "host" / name).touch(mode=0o755)
    subject = edits(here)
    common = subject.common(VERSION)
    assert [each.path for each in common.hooks] == ["/usr/local/nvidia/toolkit/nvidia-cdi-hook"] * 2
    assert [(each.path, each.host_path) for each in common.device_nodes] == [
        ("/dev/nvidiactl", ""),
        ("/dev/nvidia-uvm", ""),
    ]
    gpu = Gpu(minor=0, index=0, driver_version=VERSION, nodes=("/dev/nvidia0",))
    assert subject.flaw(gpu) == ""
    (tmp_path / "host/dev/nvidia0").unlink()
    assert subject.flaw(gpu).startswith("/dev/nvidia0 is missing, without which CUDA fails")


@pytest.mark.parametrize(
    ("installed", "version", "flaw"),
    [
        pytest.param({}, VERSION, "", id="none"),
        pytest.param({}, "", "the version of NVIDIA's kernel module is not known", id="no-version"),
        pytest.param(
            {"version": "575.1.2"},
            VERSION,
            f"NVIDIA's kernel module is of version {VERSION}, but the libraries below / are of version 575.1.2; reboot",
            id="packages-newer-than-the-module",
        ),
        pytest.param(
            {"version": "575.1.2"},
            "575.1",
            "NVIDIA's kernel module is of version 575.1, but the libraries below / are of version 575.1.2; reboot",
            id="a-version-that-begins-alike",
        ),
        pytest.param(
            {"nodes": ()}, VERSION, "/dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0 are missing", id="no-nodes"
        ),
        pytest.param({"nodes": ("nvidiactl", "nvidia0")}, VERSION, "/dev/nvidia-uvm is missing", id="no-uvm"),
        pytest.param({"nodes": ("nvidiactl", "nvidia-uvm")}, VERSION, "/dev/nvidia0 is missing", id="not-its-node"),
    ],
)
def test_what_containers_would_lack_is_told_with_the_remedy(tmp_path, installed, version, flaw):
    gpu = Gpu(minor=0, index=0, driver_version=version, nodes=("/dev/nvidia0",))
    found = edits(install(tmp_path, **installed), host="/").flaw(gpu)
    assert found.startswith(flaw)
    assert bool(found) == bool(flaw)


def test_a_root_without_any_library_is_told(tmp_path):
    gpu = Gpu(minor=0, index=0, driver_version=VERSION)
    assert edits(tmp_path).flaw(gpu) == (
        f"no libcuda.so.{VERSION} is below /run/nvidia/driver, in none of the folders that the plugin searches; "
        "install the driver's libraries, or set --nvidia-root (chart: kubeletPlugin.gpu.nvidiaRoot) to the "
        "driver's root"
    )


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
