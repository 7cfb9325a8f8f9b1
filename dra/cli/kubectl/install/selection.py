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
    "dra-reserve-profiles": "deploy/colocation-profiles/config.yaml",
}
"""Deployment → the file that its ConfigMap is generated from."""

_PLUGINS: Final = ("kubelet-plugin", "kubelet-plugin-nvidia", "kubelet-plugin-static")

EXCLUSIVE: Final = (("reservations", "reservations-yielding"), _PLUGINS)
"""Components of which at most one is installed."""

REQUIRED: Final[Mapping[str, Sequence[str]]] = {
    "descheduler": ("reservations", "reservations-yielding"),
    "descheduler-profiles": ("descheduler",),
    "reservations-load-aware": ("reservations",),
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
    "colocation": {"colocation": "true"},
}
"""Component → fields of the controller's configuration that the component needs."""

DEVICES_ARGUMENT: Final = "--koordinator-devices"

COLOCATION_ARGUMENT: Final = "--colocation"


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
        """The components, the controller first, and kubelet plugins before components that contain the plain one."""
        names = sorted(self.optional, key=lambda name: name not in _PLUGINS)
        return tuple(
            component for name in (self.mode.value, *names) if (component := components.find(name)) is not None
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
        by_id: dict[tuple[str, ...], Json] = {}
        for component in self.components:
            for document in kustomization.render(component.path, options):
                by_id.setdefault(object_id(document), document)
        if "koordinator-devices" in self.optional:
            _add_argument(by_id.values(), DEVICES_ARGUMENT)
        if "colocation" in self.optional:
            _give_access_for_colocation(by_id.values())
        return kustomization.in_creation_order(by_id.values())


def object_id(manifest: Json) -> tuple[str, ...]:
    """Return API version, kind, namespace and name of an object."""
    meta = manifest["metadata"]
    return manifest["apiVersion"], manifest["kind"], meta.get("namespace", ""), meta["name"]


def _add_argument(objects: Iterable[Json], argument: str) -> None:
    """Add an argument to the kubelet plugin, as the rights of a component allow."""
    for arguments in map(_arguments, _daemon_sets(objects)):
        if argument not in arguments:
            arguments.append(argument)


def _give_access_for_colocation(objects: Iterable[Json]) -> None:
    """Patch a kubelet plugin of another component as the component `colocation` patches the plain one."""
    lacking = [daemon_set for daemon_set in _daemon_sets(objects) if COLOCATION_ARGUMENT not in _arguments(daemon_set)]
    kustomization.patch_objects(lacking, "deploy/colocation")


def _daemon_sets(objects: Iterable[Json]) -> list[Json]:
    return [document for document in objects if document["kind"] == "DaemonSet"]


def _arguments(daemon_set: Json) -> list[str]:
    arguments: list[str] = daemon_set["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments
