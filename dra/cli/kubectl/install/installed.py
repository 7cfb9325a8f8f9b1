"""Reads what an installation of dra-reserve on a cluster uses: its configuration files and its image."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dra.api.rbac import NAMESPACE
from dra.cli.kubectl.install.selection import CONFIG_FILES
from dra.kube.client import Client
from dra.kube.errors import NotFound
from dra.kube.resources import DEPLOYMENTS, Resource
from dra.model.meta import UnstructuredObject

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)

CONFIG_KEY: Final = "config.yaml"
"""Key of the configuration in each ConfigMap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The settings of an installation that a new installation keeps."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Path of a configuration file of the package → the text that the cluster has in its place."""

    config_maps: tuple[str, ...] = ()
    """Names of the ConfigMaps with these texts."""

    image: str | None = None
    """Image of the controller; None if no controller is installed."""


async def read(client: Client) -> Installed:
    """Return the settings of the installation on a cluster; raise ApiError."""
    files: dict[str, str] = {}
    names: list[str] = []
    image: str | None = None
    for deployment, path in CONFIG_FILES.items():
        spec = await _pod_spec(client, deployment)
        image = image or next((str(container["image"]) for container in spec.get("containers", ())), None)
        for volume in spec.get("volumes", ()):
            if name := volume.get("configMap", {}).get("name"):
                text = await _config_text(client, name)
                if text is not None:
                    files[path] = text
                    names.append(name)
    return Installed(files=files, config_maps=tuple(names), image=image)


async def _pod_spec(client: Client, deployment: str) -> dict[str, Any]:
    try:
        deployment_object = await client.get(DEPLOYMENTS, (NAMESPACE, deployment), UnstructuredObject)
    except NotFound:
        return {}
    spec: dict[str, Any] = deployment_object.content["spec"]["template"]["spec"]
    return spec


async def _config_text(client: Client, name: str) -> str | None:
    try:
        config_map = await client.get(CONFIG_MAPS, (NAMESPACE, name), UnstructuredObject)
    except NotFound:
        return None
    text: str | None = config_map.content.get("data", {}).get(CONFIG_KEY)
    return text
