"""Follows a Deployment of dra-reserve to its configuration: from the volumes of its pods to the ConfigMaps' texts."""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from dra.kube.client import Client
from dra.kube.errors import NotFound
from dra.kube.resources import CONFIG_MAPS
from dra.model.meta import ObjectMeta, Struct
from dra.model.node_pods import ConfigMap

CONFIG_KEY: Final = "config.yaml"
"""Key of the configuration in each ConfigMap."""


class KeyToPath(Struct, frozen=True):
    """A key of a ConfigMap, and the file that it becomes."""

    key: str = ""
    path: str = ""


class ConfigMapSource(Struct, frozen=True):
    """The ConfigMap of a volume; without ``items`` each key becomes the file of that name."""

    name: str = ""
    items: list[KeyToPath] | None = None


class Volume(Struct, frozen=True):
    """A volume, as far as a ConfigMap is in it."""

    name: str = ""
    config_map: ConfigMapSource | None = None


class VolumeMount(Struct, frozen=True):
    """The place of a volume in the files of a container."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""


class ConfiguredContainer(Struct, frozen=True):
    """A container, with the command line that may name a configuration."""

    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    volume_mounts: list[VolumeMount] | None = None

    @property
    def words(self) -> list[str]:
        """The words of the command line."""
        return [*(self.command or ()), *(self.args or ())]


class ConfiguredPodSpec(Struct, frozen=True):
    """The spec of a pod with its containers and volumes."""

    containers: list[ConfiguredContainer] = msgspec.field(default_factory=list)
    volumes: list[Volume] | None = None


class ConfiguredPodTemplate(Struct, frozen=True):
    """The template of the pods of a Deployment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ConfiguredPodSpec = ConfiguredPodSpec()


class ConfiguredDeploymentSpec(Struct, frozen=True):
    """``spec`` of a Deployment."""

    template: ConfiguredPodTemplate = ConfiguredPodTemplate()


class ConfiguredDeployment(Struct, frozen=True):
    """A Deployment, as far as it leads to its configuration."""

    metadata: ObjectMeta
    spec: ConfiguredDeploymentSpec = ConfiguredDeploymentSpec()


async def config_map_texts(client: Client, pod: ConfiguredPodSpec, *, namespace: str) -> AsyncIterator[tuple[str, str]]:
    """Yield the name of each ConfigMap that pods mount, and the configuration in it; raise ApiError."""
    for volume in pod.volumes or ():
        if volume.config_map is None or not volume.config_map.name:
            continue
        try:
            config_map = await client.get(CONFIG_MAPS, (namespace, volume.config_map.name), ConfigMap)
        except NotFound:
            continue
        text = (config_map.data or {}).get(CONFIG_KEY)
        if text is not None:
            yield volume.config_map.name, text
