"""Names for the tab key: what a cluster has of a kind, at once or not at all."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import click

from dra.cli.kubectl.connection import connect
from dra.cli.kubectl.options import Place
from dra.cli.kubectl.reading.source import Source
from dra.kube.client import Selection
from dra.kube.errors import ApiError
from dra.kube.resources import CLAIMS, NODES, PODS, Resource
from dra.model.meta import PartialObjectMetadata

PATIENCE: Final = 2.0
"""Seconds; a shell that waits longer for a tab key seems to hang."""

RESOURCES: Final[Mapping[str, Resource]] = {"claim": CLAIMS, "pod": PODS, "node": NODES}


def names(kind: str, options: Mapping[str, Any]) -> list[str]:
    """Return the names of a kind, in the namespace that the options of the command line mean; never an error."""
    resource = RESOURCES.get(kind)
    if resource is None:
        return []
    place = Place(kubeconfig=options.get("kubeconfig"), context=options.get("context"))
    try:
        namespace = Source(place=place, given=options.get("namespace")).namespace if resource.namespaced else None
        return asyncio.run(asyncio.wait_for(_listed(place, resource, namespace), PATIENCE))
    except (ApiError, click.ClickException, TimeoutError, OSError):
        return []


async def _listed(place: Place, resource: Resource, namespace: str | None) -> list[str]:
    found: list[str] = []
    async with connect(place) as connection:
        pages = connection.client.list_pages(resource, PartialObjectMetadata, selection=Selection(namespace=namespace))
        async for page in pages:
            found += [each.metadata.name for each in page.items]
    return found
