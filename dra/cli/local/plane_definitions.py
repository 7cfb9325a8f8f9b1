"""Applies the CRDs that a component of a plane needs."""

from collections.abc import Iterable
from typing import Any, Final

from dra.kube.client import Client
from dra.kube.errors import AlreadyExists
from dra.kube.resources import Resource
from dra.model.meta import PartialObjectMetadata

_CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


async def apply_definitions(client: Client, definitions: Iterable[dict[str, Any]]) -> None:
    """Create the CRDs, or update those that exist: a saved state may have an older version. Raises ApiError."""
    for wanted in definitions:
        try:
            await client.create(_CRDS, wanted, model=PartialObjectMetadata)
        except AlreadyExists:
            key = ("", wanted["metadata"]["name"])
            await client.merge_patch(_CRDS, key, {"spec": wanted["spec"]}, model=PartialObjectMetadata)
