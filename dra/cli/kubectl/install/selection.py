"""Turns what a user asks to install into objects: components, and the settings that components need.

Pure but for reading the package: the same request makes the same objects.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dra.api.configuration import ControllerMode
from dra.cli.kubectl.option_values import OPTIONAL_COMPONENTS
from dra.cli.manifests import components, kustomization, package_data
from dra.cli.manifests.components import Component
from dra.cli.manifests.kustomization import RenderOptions

Json = dict[str, Any]

CONTROLLER_CONFIG: Final = "deploy/kustomize/base/config.yaml"

CONFIG_FILES: Final[Mapping[str, str]] = {
    "dra-reserve-controller": CONTROLLER_CONFIG,
    "dra-reserve-extender": "deploy/reservations/extender-config.yaml",
    "dra-reserve-descheduler": "deploy/descheduler/config.yaml",
    "dra-reserve-page": "deploy/page/config.yaml",
}
"""Deployment → the file that its ConfigMap is generated from."""

_PLUGINS: Final = ("kubelet-plugin", "kubelet-plugin-nvidia", "kubelet-plugin-static")

EXCLUSIVE: Final = (("reservations", "reservations-yielding"), _PLUGINS)
"""Components of which at most one is installed."""

REQUIRED: Final[Mapping[str, Sequence[str]]] = {
    "descheduler": ("reservations", "reservations-yielding"),
    "koordinator-devices": _PLUGINS,
    "claim-status": _PLUGINS,
    "node-topology": _PLUGINS,
}
"""Component → the components of which one is required."""

SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "reservations": {"reservations": "true"},
    "reservations-yielding": {"reservations": "true", "placeholders": "yielding"},
    "koordinator": {"koordinator": "true"},
    "annotate-nodes": {"annotateNodes": "true"},
}
"""Component → fields of the controller's configuration that the component needs."""

DEVICES_ARGUMENT: Final = "--koordinator-devices"


class SelectionError(ValueError):
    """The components cannot be installed together; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The mode and the components of an installation."""

    mode: ControllerMode
    optional: tuple[str, ...] = ()
    image: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """Configuration files that stand for those of the package: path → text."""

    def check(self) -> None:
        """Raise SelectionError if the components cannot be installed together."""
        chosen = set(self.optional)
        for name in self.optional:
            if name not in OPTIONAL_COMPONENTS:
                raise SelectionError(f"{name}: no such component; there are {', '.join(OPTIONAL_COMPONENTS)}")
            if (needed := REQUIRED.get(name)) and not chosen & set(needed):
                raise SelectionError(f"{name}: requires {' or '.join(needed)}")
        for names in EXCLUSIVE:
            if len(both := [name for name in names if name in chosen]) > 1:
                raise SelectionError(f"{' and '.join(both)}: only one can be installed")

    @property
    def components(self) -> tuple[Component, ...]:
        """The components, the controller first."""
        return tuple(
            found for name in (self.mode.value, *self.optional) if (found := components.find(name)) is not None
        )

    @property
    def settings(self) -> Mapping[str, str]:
        """The fields of the controller's configuration that the components need."""
        return {key: value for name in self.optional for key, value in SETTINGS.get(name, {}).items()}

    def controller_config(self) -> str:
        """Return the text of the controller's configuration, with the settings of the components."""
        text = self.files.get(CONTROLLER_CONFIG) or package_data.read_text(CONTROLLER_CONFIG)
        for key, value in self.settings.items():
            line = f"{key}: {value}"
            text, count = re.subn(rf"^{key}:.*$", line, text, flags=re.MULTILINE)
            text = text if count else f"{text.rstrip()}\n{line}\n"
        return text

    def objects(self) -> list[Json]:
        """Return all objects, each once, in an order in which they can be created."""
        options = RenderOptions(
            image=self.image, replaced_files={**self.files, CONTROLLER_CONFIG: self.controller_config()}
        )
        found: dict[tuple[str, ...], Json] = {}
        for component in self.components:
            for each in kustomization.render(component.path, options):
                found.setdefault(object_id(each), each)
        if "koordinator-devices" in self.optional:
            _add_devices_argument(found.values())
        return kustomization.in_creation_order(found.values())


def object_id(manifest: Json) -> tuple[str, ...]:
    """Return API version, kind, namespace and name of an object."""
    meta = manifest["metadata"]
    return manifest["apiVersion"], manifest["kind"], meta.get("namespace", ""), meta["name"]


def _add_devices_argument(objects: Iterable[Json]) -> None:
    """Let the kubelet plugin report its devices, as the component's rights allow."""
    for each in objects:
        if each["kind"] == "DaemonSet":
            arguments = each["spec"]["template"]["spec"]["containers"][0]["args"]
            if DEVICES_ARGUMENT not in arguments:
                arguments.append(DEVICES_ARGUMENT)
