"""Reads what the controller is configured to do, from the ConfigMap that its Deployment mounts."""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import yaml

from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.cli.kubectl import connection
from dra.cli.kubectl.snapshots.deployment_reader import COMPONENT, CONTROLLER, NAME_SELECTOR
from dra.kube.client import Client, Selection
from dra.kube.errors import ApiError
from dra.kube.resources import CONFIG_MAPS, DEPLOYMENTS
from dra.model.meta import ObjectMeta, Struct
from dra.model.node_pods import ConfigMap

_CONFIG_KEY: Final = "config.yaml"
"""Key of the configuration in the ConfigMap."""

_FIELD: Final = "defaultCPUBindPolicy"
DEFAULT_POLICY: Final = CpuBindPolicy.FULL_PCPUS
"""The policy of a configuration that names none."""


class _ConfigMapSource(Struct, frozen=True):
    name: str = ""


class _Volume(Struct, frozen=True):
    config_map: _ConfigMapSource | None = None


class _PodSpec(Struct, frozen=True):
    volumes: list[_Volume] | None = None


class _Template(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _PodSpec = _PodSpec()


class _Spec(Struct, frozen=True):
    template: _Template = _Template()


class _Deployment(Struct, frozen=True):
    metadata: ObjectMeta
    spec: _Spec = _Spec()


async def read_default_cpu_bind_policy(client: Client, *, namespace: str) -> CpuBindPolicy | None:
    """Return the bind policy of pods that name none, as the controller of a namespace has it.

    None where the configuration cannot be read: without the right to, or of a controller outside of the cluster. The
    controller of a local plane has the default.
    """
    try:
        async for text in _configurations(client, namespace):
            return _policy(text)
        return DEFAULT_POLICY if await connection.controller_pid(client) else None
    except ApiError:
        return None


async def _configurations(client: Client, namespace: str) -> AsyncIterator[str]:
    """Yield the configurations of controllers; raise ApiError."""
    selection = Selection(namespace=namespace, labels=NAME_SELECTOR)
    async for page in client.list_pages(DEPLOYMENTS, _Deployment, selection=selection):
        for template in (deployment.spec.template for deployment in page.items):
            if (template.metadata.labels or {}).get(COMPONENT, CONTROLLER) != CONTROLLER:
                continue
            for volume in template.spec.volumes or ():
                if volume.config_map is not None and volume.config_map.name:
                    key = (namespace, volume.config_map.name)
                    text = ((await client.get(CONFIG_MAPS, key, ConfigMap)).data or {}).get(_CONFIG_KEY)
                    if text is not None:
                        yield text


def _policy(text: str) -> CpuBindPolicy | None:
    """Return the policy of a configuration; None if it has an unknown one, or is no YAML mapping."""
    try:
        content = yaml.safe_load(text)
        return CpuBindPolicy(content.get(_FIELD, DEFAULT_POLICY)) if isinstance(content, Mapping) else None
    except (yaml.YAMLError, ValueError):
        return None
