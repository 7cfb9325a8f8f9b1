"""Applies the CRDs that a component of a plane needs."""

from collections.abc import Iterable
from typing import Any

from dra.kube.client import Client
from dra.kube.errors import AlreadyExists
from dra.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from dra.model.meta import PartialObjectMetadata


async def apply_definitions(client: Client, definitions: Iterable[dict[str, Any]]) -> None:
    """Create the CRDs, or update those that exist: a saved state may have an older version. Raises ApiError."""
    for wanted in definitions:
        try:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, wanted, model=PartialObjectMetadata)
        except AlreadyExists:
            key = ("", wanted["metadata"]["name"])
            body = {"spec": wanted["spec"]}
            await client.merge_patch(CUSTOM_RESOURCE_DEFINITIONS, key, body, model=PartialObjectMetadata)
