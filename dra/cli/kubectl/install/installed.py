"""Reads what an installation of dra-reserve on a cluster uses: its configuration files and its image."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dra.api.rbac import NAMESPACE
from dra.cli.kubectl.install.selection import CONFIG_FILES
from dra.cli.kubectl.snapshots.mounted_configuration import (
    ConfiguredDeployment,
    ConfiguredPodSpec,
    config_map_texts,
)
from dra.kube.client import Client
from dra.kube.errors import NotFound
from dra.kube.resources import DEPLOYMENTS


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
        pod = await _pod_spec(client, deployment)
        image = image or next((container.image for container in pod.containers), None)
        async for name, text in config_map_texts(client, pod, namespace=NAMESPACE):
            files[path] = text
            names.append(name)
    return Installed(files=files, config_maps=tuple(names), image=image)


async def _pod_spec(client: Client, deployment: str) -> ConfiguredPodSpec:
    try:
        return (await client.get(DEPLOYMENTS, (NAMESPACE, deployment), ConfiguredDeployment)).spec.template.spec
    except NotFound:
        return ConfiguredPodSpec()
