"""The DeviceClasses of a new plane: one for the devices of each driver, so that claims of one's own find them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from dra.kube.client import Client
from dra.kube.errors import AlreadyExists
from dra.kube.resources import DEVICE_CLASSES
from dra.model.meta import PartialObjectMetadata
from localplane.nodes.node_objects import DRIVER

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""What ``kubectl apply`` would have left: without it, the next one warns."""


def class_names(*, devices: int, plugins: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the drivers that publish devices on a plane, and of their classes.

    `devices`: number on each emulated node. `plugins`: drivers whose plugins the nodes run.
    """
    drivers = [f"{plugin}.reserve.dra" for plugin in plugins or ()]
    return (*((DRIVER,) if devices and not drivers else ()), *drivers)


async def create_classes(client: Client, names: Iterable[str]) -> None:
    """Create the classes; one that exists already stays as it is. Raises ApiError."""
    for body in class_manifests(names):
        with suppress(AlreadyExists):
            await client.create(DEVICE_CLASSES, body, model=PartialObjectMetadata)


def class_manifests(names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield a class for all devices of each driver, as if it had been applied by kubectl."""
    for name in names:
        content: dict[str, Any] = {
            "apiVersion": DEVICE_CLASSES.api_version,
            "kind": DEVICE_CLASSES.kind,
            "metadata": {"annotations": {}, "name": name},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{name}'"}}]},
        }
        applied = msgspec.json.encode(content, order="sorted").decode() + "\n"
        yield content | {"metadata": {"name": name, "annotations": {_LAST_APPLIED: applied}}}
