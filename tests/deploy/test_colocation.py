"""What can be said of the installation of colocation without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dra.api.configuration import ControllerMode
from dra.cli.kubectl.install.selection import Selection
from dra.cli.main import main
from dra.cli.manifests import kustomization

FOLDER = Path(__file__).parents[2] / "deploy" / "colocation"
PLUGINS = ("kubelet-plugin", "kubelet-plugin-nvidia", "kubelet-plugin-static")


def daemon_set(objects):
    (only,) = (obj for obj in objects if obj["kind"] == "DaemonSet")
    return only["spec"]["template"]["spec"]


def access(pod):
    """The arguments, mounts and volumes of the plugin, and the namespaces of the host that it is in."""
    (container,) = pod["containers"]
    of_host = {name for name in ("hostPID", "hostNetwork", "hostIPC") if pod.get(name)}
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    return set(container["args"]), of_host, mounts, volumes


def added(after, before):
    return {name: value for name, value in after.items() if name not in before}


def test_every_file_is_installed():
    resources = set(yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"])
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert resources == files | {"../kubelet-plugin", "../../crds"}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_each_kubelet_plugin_gets_the_same_access(plugin):
    def of(*components):
        return access(daemon_set(Selection(mode=ControllerMode.ALONGSIDE, optional=components).objects()))

    before, after = of(plugin), of("colocation", plugin)
    assert after[0] - before[0] == {"--colocation"}
    assert after[1] - before[1] == {"hostPID"}
    assert added(after[2], before[2]) == {
        "sys-fs": {"name": "sys-fs", "mountPath": "/sys/fs", "mountPropagation": "HostToContainer"}
    }
    assert added(after[3], before[3]) == {
        "sys-fs": {"name": "sys-fs", "hostPath": {"path": "/sys/fs", "type": "Directory"}}
    }


def test_without_a_plugin_of_its_own_it_brings_the_plain_one():
    alone = Selection(mode=ControllerMode.ALONGSIDE, optional=("colocation",)).objects()
    both = Selection(mode=ControllerMode.ALONGSIDE, optional=("kubelet-plugin", "colocation")).objects()
    assert sorted(map(repr, alone)) == sorted(map(repr, both))


def test_the_container_has_no_privilege_but_its_user():
    (container,) = daemon_set(kustomization.render("deploy/colocation"))["containers"]
    context = container["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["allowPrivilegeEscalation"] is False
    assert "privileged" not in context


def test_the_argument_is_an_option_of_the_command():
    options = {option for parameter in main.commands["kubelet-plugin"].params for option in parameter.opts}
    assert "--colocation" in options


def test_what_of_the_host_is_added_is_said_to_be_needed():
    text = (FOLDER / "kustomization.yaml").read_text().partition("apiVersion")[0]
    assert "hostPID:" in text
    assert "/sys/fs:" in text
