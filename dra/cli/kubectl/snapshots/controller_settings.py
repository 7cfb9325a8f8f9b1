"""Reads what the controller is configured to do, from the ConfigMap that its Deployment mounts."""

from collections.abc import AsyncIterator, Mapping
from typing import Final

import yaml

from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.cli.kubectl import connection
from dra.cli.kubectl.snapshots.deployment_reader import COMPONENT, CONTROLLER, NAME_SELECTOR
from dra.cli.kubectl.snapshots.mounted_configuration import ConfiguredDeployment, config_map_texts
from dra.kube.client import Client, Selection
from dra.kube.errors import ApiError
from dra.kube.resources import DEPLOYMENTS

_FIELD: Final = "defaultCPUBindPolicy"
DEFAULT_POLICY: Final = CpuBindPolicy.FULL_PCPUS
"""The policy of a configuration that names none."""


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
    async for page in client.list_pages(DEPLOYMENTS, ConfiguredDeployment, selection=selection):
        for template in (deployment.spec.template for deployment in page.items):
            if (template.metadata.labels or {}).get(COMPONENT, CONTROLLER) == CONTROLLER:
                async for _, text in config_map_texts(client, template.spec, namespace=namespace):
                    yield text


def _policy(text: str) -> CpuBindPolicy | None:
    """Return the policy of a configuration; None if it has an unknown one, or is no YAML mapping."""
    try:
        content = yaml.safe_load(text)
        return CpuBindPolicy(content.get(_FIELD, DEFAULT_POLICY)) if isinstance(content, Mapping) else None
    except (yaml.YAMLError, ValueError):
        return None
