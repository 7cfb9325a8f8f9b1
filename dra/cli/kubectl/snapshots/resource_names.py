"""Lists names for shell completion, quickly or not at all."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import click

from dra.cli.kubectl.connection import connect
from dra.cli.kubectl.options import ClusterFlags
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.kube.client import Selection
from dra.kube.errors import ApiError
from dra.kube.resources import CLAIMS, NODES, PODS, Resource
from dra.model.meta import PartialObjectMetadata

COMPLETION_TIMEOUT: Final = 2.0
"""Seconds until completion gives up; a shell that waits longer seems to hang."""

COMPLETED_RESOURCES: Final[Mapping[str, Resource]] = {"claim": CLAIMS, "pod": PODS, "node": NODES}


def list_names(kind: str, options: Mapping[str, Any]) -> list[str]:
    """Return the names of a kind, in the namespace that the command line selects; never raise an error."""
    resource = COMPLETED_RESOURCES.get(kind)
    if resource is None:
        return []
    place = ClusterFlags(kubeconfig=options.get("kubeconfig"), context=options.get("context"))
    try:
        namespace = (
            SnapshotSource(place=place, given=options.get("namespace")).namespace if resource.namespaced else None
        )
        return asyncio.run(asyncio.wait_for(_list_names(place, resource, namespace), COMPLETION_TIMEOUT))
    except (ApiError, click.ClickException, TimeoutError, OSError):
        return []


async def _list_names(place: ClusterFlags, resource: Resource, namespace: str | None) -> list[str]:
    found: list[str] = []
    async with connect(place) as connection:
        pages = connection.client.list_pages(resource, PartialObjectMetadata, selection=Selection(namespace=namespace))
        async for page in pages:
            found += [each.metadata.name for each in page.items]
    return found
