"""The arguments of the plugin that makes room for pods which need several devices of one node. Times are in seconds."""

from typing import Annotated, Final

from pydantic import Field, StrictInt

from dra.api.descheduler.label_selector import Selector
from dra.api.descheduler.plugin_args import Namespaces, PluginArgs

PODS_MAX: Final = 16
"""Maximum pods that are moved for one waiting pod; a node rarely has more devices."""


class DeviceDefragmentationArgs(PluginArgs):
    """The arguments of plugin DeviceDefragmentation."""

    namespaces: Namespaces = Namespaces()
    """The namespaces of the waiting pods for which room is made; by default all."""

    label_selector: Selector | None = None
    """Labels of the waiting pods for which room is made; by default any."""

    min_devices: Annotated[StrictInt, Field(ge=1, le=128)] = 2
    """Number of devices from which on a pod that waits for devices is worth moving others; a request for all devices of
    a node always is."""

    min_pending_seconds: Annotated[StrictInt, Field(ge=0)] = 60
    """Age in seconds from which on a waiting pod is considered: until then it may be scheduled without help."""

    max_pods_to_move: Annotated[StrictInt, Field(ge=1, le=PODS_MAX)] = 8
    """Maximum number of pods that are moved for one waiting pod."""

    retry_after_seconds: Annotated[StrictInt, Field(ge=0)] = 600
    """Seconds until room is made again for a pod that was not scheduled although the others had left, or that the
    others did not leave."""
