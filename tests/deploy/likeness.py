"""Whether two ways of installing install the same: what kustomizations render, made comparable with what charts do."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from dra.api.configuration import ControllerConfiguration
from dra.api.descheduler.configuration import DeschedulerProcessConfiguration
from dra.api.extender_configuration import ExtenderConfiguration
from dra.api.page_configuration import PageConfiguration
from dra.api.profiles_configuration import ProfilesConfiguration

DEPLOY: Final = Path(__file__).parents[2] / "deploy"

RUNS: Final = {"Deployment", "DaemonSet"}
UNKNOWN_TO_KUSTOMIZE: Final = {
    "DeviceClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
"""It gives them a namespace, which kubectl then leaves out."""
BOOKKEEPING: Final = ("app.kubernetes.io/", "helm.sh/")
CONFIG: Final = "controller-config"
EXTENDER_CONFIG: Final = "extender-config"
DESCHEDULER_CONFIG: Final = "descheduler-config"
PAGE_CONFIG: Final = "page-config"
PROFILES_CONFIG: Final = "colocation-profiles-config"
CONFIGS: Final = {
    "dra-reserve-extender": EXTENDER_CONFIG,
    "dra-reserve-descheduler": DESCHEDULER_CONFIG,
    "dra-reserve-page": PAGE_CONFIG,
    "dra-reserve-profiles": PROFILES_CONFIG,
}
"""Deployment → the name of its ConfigMap in the kustomizations; the controller's is the default."""

Json = dict[str, Any]
Identity = tuple[str, str, str]


def kustomized(folder: str) -> list[Json]:
    """Return what a kustomization of deploy/ renders."""
    command = ["kubectl", "kustomize", str(DEPLOY / folder)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return list(yaml.load_all(shown, yaml.CSafeLoader))


def by_identity(objects: list[Json]) -> dict[Identity, Json]:
    """Return the objects by kind, namespace and name; none may be there twice."""
    found = {(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj for obj in objects}
    assert len(found) == len(objects)
    return found


def comparable(objects: list[Json]) -> dict[Identity, Json]:
    """Leave out what only one of both ways has: bookkeeping, comments' spaces, and how a new configuration is told."""
    found = copy.deepcopy(objects)
    for obj in found:
        _forget_bookkeeping(obj)
        if obj["kind"] == "ConfigMap":
            given = yaml.safe_load(obj["data"]["config.yaml"])
            if "audience" in given:
                obj["metadata"]["name"] = PAGE_CONFIG
                obj["data"] = PageConfiguration.model_validate(given)
            elif "serve" in given:
                obj["metadata"]["name"] = EXTENDER_CONFIG
                obj["data"] = ExtenderConfiguration.model_validate(given)
            elif "migration" in given:
                obj["metadata"]["name"] = DESCHEDULER_CONFIG
                obj["data"] = DeschedulerProcessConfiguration.model_validate(given)
            elif given["leaderElection"]["name"] == "dra-reserve-profiles":
                obj["metadata"]["name"] = PROFILES_CONFIG
                obj["data"] = ProfilesConfiguration.model_validate(given)
            else:
                obj["metadata"]["name"] = CONFIG
                read = ControllerConfiguration.model_validate(given)
                obj["data"] = read.model_copy(update={"mode": None})  # the argument has the last word
        if obj["kind"] in RUNS:
            _sort(obj["spec"]["template"], config=CONFIGS.get(obj["metadata"]["name"], CONFIG))
        for part in ("matchConditions", "mutations", "variables", "validations"):  # folded texts may end in a newline
            for each in obj.get("spec", {}).get(part, []):
                each.update({name: text.strip() for name, text in each.items() if isinstance(text, str)})
    return by_identity(found)


def _forget_bookkeeping(obj: Json) -> None:
    labels = obj["metadata"].get("labels", {})
    for name in [name for name in labels if name.startswith(BOOKKEEPING)]:
        del labels[name]
    kept = obj["metadata"].get("annotations", {})
    for name in [name for name in kept if name.startswith(BOOKKEEPING)]:
        del kept[name]
    if obj["kind"] in UNKNOWN_TO_KUSTOMIZE:
        obj["metadata"].pop("namespace", None)
    obj["metadata"] = {key: value for key, value in obj["metadata"].items() if value}


def _sort(template: Json, *, config: str) -> None:
    template["metadata"].pop("annotations", None)
    template["spec"]["volumes"].sort(key=lambda volume: volume["name"])
    for volume in template["spec"]["volumes"]:
        if "configMap" in volume:
            volume["configMap"]["name"] = config
    for container in template["spec"]["containers"]:
        container["volumeMounts"].sort(key=lambda mount: mount["name"])
        container["args"] = sorted(container["args"][1:])
