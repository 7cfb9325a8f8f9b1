"""Lists names of objects for shell completion, within two seconds at most; an error yields no names."""

from typing import TYPE_CHECKING, Final

import click

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.client_flags import flags_of
from dra.kube.resources import NAMESPACES, SLICES, Resource

if TYPE_CHECKING:
    from dra.cli.kubectl.connection import Connection
    from dra.model.references import GroupResource

COMPLETION_TIMEOUT: Final = 2.0
"""Seconds until completion gives up; a shell that waits longer seems to hang."""


def list_object_names(cluster_flags: ClusterFlags, resource: Resource, namespace: str | None = None) -> list[str]:
    """Return the names of the objects of a kind; for ResourceSlices, the names of their devices."""
    import asyncio  # noqa: PLC0415 - help and usage errors need no connection

    from dra.kube.errors import ApiError  # noqa: PLC0415 - as above

    work = _list_names(cluster_flags, resource, namespace)
    try:
        return asyncio.run(asyncio.wait_for(work, COMPLETION_TIMEOUT))
    except (ApiError, click.ClickException, TimeoutError, OSError):
        return []


def list_names_of_kind(cluster_flags: ClusterFlags, words: str, namespace: str) -> list[str]:
    """Return the names of the objects of any namespaced kind, in the namespace; the words are those of a user."""
    import asyncio  # noqa: PLC0415 - as above

    from dra.kube.errors import ApiError  # noqa: PLC0415 - as above
    from dra.model.references import GroupResource, MalformedReferenceError  # noqa: PLC0415 - as above

    try:
        wanted = GroupResource.parse(words.lower())
        return asyncio.run(asyncio.wait_for(_list_kind(cluster_flags, wanted, namespace), COMPLETION_TIMEOUT))
    except (ApiError, MalformedReferenceError, click.ClickException, TimeoutError, OSError):
        return []


def complete_namespace(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the namespaces that begin with the incomplete word."""
    del param
    if ctx.params.get("bundle"):
        return []
    return [name for name in list_object_names(flags_of(ctx.params), NAMESPACES) if name.startswith(incomplete)]


async def _list_names(cluster_flags: ClusterFlags, resource: Resource, namespace: str | None) -> list[str]:
    from dra.cli.kubectl.connection import connect  # noqa: PLC0415 - as above

    async with connect(cluster_flags) as connection:
        if resource is SLICES:
            return await _list_devices(connection)
        return await _list_objects(connection, resource, namespace)


async def _list_kind(cluster_flags: ClusterFlags, wanted: "GroupResource", namespace: str) -> list[str]:
    from dra.cli.kubectl.connection import connect  # noqa: PLC0415 - as above
    from dra.kube.discovery import Discovery  # noqa: PLC0415 - as above

    async with connect(cluster_flags) as connection:
        discovery = Discovery(connection.client)
        canonical = await discovery.expand_shortcut(wanted)
        resource = await discovery.resolve(canonical) if canonical is not None else None
        return await _list_objects(connection, resource, namespace) if resource is not None else []


async def _list_objects(connection: "Connection", resource: Resource, namespace: str | None) -> list[str]:
    from dra.kube.client import Selection  # noqa: PLC0415 - as above
    from dra.model.meta import PartialObjectMetadata  # noqa: PLC0415 - as above

    names: list[str] = []
    pages = connection.client.list_pages(resource, PartialObjectMetadata, selection=Selection(namespace=namespace))
    async for page in pages:
        names += [item.metadata.name for item in page.items]
    return names


async def _list_devices(connection: "Connection") -> list[str]:
    from dra.model.slices import ResourceSlice  # noqa: PLC0415 - as above

    names: list[str] = []
    async for page in connection.client.list_pages(SLICES, ResourceSlice):
        names += [
            f"{device_slice.spec.driver}/{device_slice.spec.pool.name}/{device.name}"
            for device_slice in page.items
            for device in device_slice.spec.devices or ()
        ]
    return names
