"""Renders the kustomizations of the package as ``kubectl kustomize`` does, where there is no kubectl.

Only the fields that our kustomizations use are known; any other field is an error, so that none is ignored. A test
compares each rendered kustomization with the output of kubectl.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

import yaml

from dra.cli.manifests import package_data

Json = dict[str, Any]

CLUSTER_KINDS: Final = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "DeviceClass",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "Namespace",
        "PriorityClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
"""Kinds without a namespace."""

KINDS_FIRST: Final = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "ConfigMap")
"""Kinds that other objects need; rendered objects begin with them."""

KINDS_LAST: Final = ("Deployment", "DaemonSet")
"""Kinds whose pods need the rights, configurations and policies before them."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser of libyaml where PyYAML has it: the definitions of an installation are read in 0.1 s and not in 1 s."""

_HASH_LENGTH: Final = 10
_HASH_LETTERS: Final = str.maketrans("013ae", "ghkmt")
"""Letters that kustomize replaces in hashes, so that no hash spells a word."""


class UnknownFieldError(ValueError):
    """A kustomization has a field that is not supported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kustomization:
    """A kustomization.yaml, with the folder it is in."""

    folder: PurePosixPath
    namespace: str = ""
    resources: Sequence[str] = ()
    labels: Sequence[Json] = ()
    images: Sequence[Json] = ()
    patches: Sequence[Json] = ()
    config_maps: Sequence[Json] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderOptions:
    """Changes of the files before they are rendered, as an administrator would edit a copy of them."""

    replaced_files: Mapping[str, str] = field(default_factory=dict)
    """Path relative to the data → text that stands for the content of the file."""

    image: str | None = None
    """Image in place of ``dra-reserve:VERSION``; None keeps that name."""


def load(folder: str) -> Kustomization:
    """Return the kustomization of a folder; raise UnknownFieldError."""
    content = _load_yaml(package_data.read_text(f"{folder}/kustomization.yaml"))
    content.pop("apiVersion"), content.pop("kind")
    known = {
        "namespace": content.pop("namespace", ""),
        "resources": content.pop("resources", ()),
        "labels": content.pop("labels", ()),
        "images": content.pop("images", ()),
        "patches": content.pop("patches", ()),
        "config_maps": content.pop("configMapGenerator", ()),
    }
    if content:
        raise UnknownFieldError(f"{folder}/kustomization.yaml: {', '.join(content)}")
    return Kustomization(folder=PurePosixPath(folder), **known)


def folders(folder: str) -> Iterator[str]:
    """Yield the folder of a kustomization and all folders that the kustomization uses, each once."""
    seen: set[str] = set()
    left = [folder]
    while left:
        current = left.pop(0)
        if current in seen:
            continue
        seen.add(current)
        yield current
        used = (_join(PurePosixPath(current), name) for name in load(current).resources)
        left += filter(_is_folder, used)


def render(path: str, options: RenderOptions | None = None) -> list[Json]:
    """Return the objects of a kustomization or of a file, in an order in which they can be created."""
    options = options or RenderOptions()
    objects = _render(load(path), options) if _is_folder(path) else _documents(path, options)
    if options.image is not None:
        for document in objects:
            _set_images(document, {"dra-reserve": options.image})
    return in_creation_order(objects)


def in_creation_order(objects: Iterable[Json]) -> list[Json]:
    """Return the objects in an order in which they can be created: what others need comes first."""
    return sorted(objects, key=lambda document: _rank(document["kind"]))


def _rank(kind: str) -> int:
    if kind in KINDS_FIRST:
        return KINDS_FIRST.index(kind)
    return len(KINDS_FIRST) + (1 + KINDS_LAST.index(kind) if kind in KINDS_LAST else 0)


def _render(kustomization: Kustomization, options: RenderOptions) -> list[Json]:
    objects: list[Json] = []
    for name in kustomization.resources:
        path = _join(kustomization.folder, name)
        objects += _render(load(path), options) if _is_folder(path) else _documents(path, options)
    renamed: dict[str, str] = {}
    for generator in kustomization.config_maps:
        made = _config_map(kustomization, generator, options)
        renamed[generator["name"]] = made["metadata"]["name"]
        objects.append(made)
    for patch in kustomization.patches:
        objects = _patched(objects, patch)
    for document in objects:
        if kustomization.namespace and document["kind"] not in CLUSTER_KINDS:
            document["metadata"]["namespace"] = kustomization.namespace
        for pairs in kustomization.labels:
            document["metadata"].setdefault("labels", {}).update(pairs["pairs"])
        _rename_config_maps(document, renamed)
        _set_images(document, {image["name"]: f"{image['name']}:{image['newTag']}" for image in kustomization.images})
    return objects


def patch_objects(objects: list[Json], folder: str) -> list[Json]:
    """Return the objects with the patches of a folder's kustomization applied, as if it had these resources."""
    for patch in load(folder).patches:
        objects = _patched(objects, patch)
    return objects


def _documents(path: str, options: RenderOptions) -> list[Json]:
    return [document for document in yaml.load_all(_text(path, options), _LOADER) if document]


def _load_yaml(text: str) -> Any:  # noqa: ANN401 - what YAML can say
    return yaml.load(text, _LOADER)  # noqa: S506 - a safe loader


def _text(path: str, options: RenderOptions) -> str:
    return options.replaced_files.get(path) or package_data.read_text(path)


def _join(folder: PurePosixPath, name: str) -> str:
    parts: list[str] = []
    for part in (folder / name).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _is_folder(path: str) -> bool:
    return (package_data.data_root() / path).is_dir()


def _config_map(kustomization: Kustomization, generator: Json, options: RenderOptions) -> Json:
    """Return a generated ConfigMap, whose name ends in a hash of its content."""
    data = {}
    for file in generator["files"]:
        key, equals, name = file.partition("=")
        data[key] = _text(_join(kustomization.folder, name if equals else key), options)
    # kustomize hashes the object before the object has its name.
    hashed = json.dumps({"data": data, "kind": "ConfigMap", "name": ""}, separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&":
        hashed = hashed.replace(letter, f"\\u{ord(letter):04x}")  # as Go's encoder writes them
    suffix = hashlib.sha256(hashed.encode()).hexdigest()[:_HASH_LENGTH].translate(_HASH_LETTERS)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{generator['name']}-{suffix}"},
        "data": data,
    }


def _patched(objects: list[Json], patch: Json) -> list[Json]:
    """Return the objects with a patch applied to its target: operations of a JSON patch, or a deletion."""
    operations = _load_yaml(patch["patch"])
    if isinstance(operations, dict):
        if operations.get("$patch") != "delete":
            raise UnknownFieldError(f"patch of {patch['target']}: only $patch: delete is supported")
        return [document for document in objects if not _is_target(document, patch["target"])]
    for document in objects:
        if _is_target(document, patch["target"]):
            for operation in operations:
                _apply_operation(document, operation)
    return objects


def _is_target(document: Json, target: Json) -> bool:
    """Report whether a patch is for an object; the target's name is a regular expression, as in kustomize."""
    name: str = document["metadata"]["name"]
    # A patch names a generated ConfigMap without the hash.
    names = {name, name.rpartition("-")[0]} if document["kind"] == "ConfigMap" else {name}
    return document["kind"] == target["kind"] and any(re.fullmatch(target["name"], known) for known in names)


def _apply_operation(target: Json, operation: Json) -> None:
    """Apply one operation of a JSON patch (RFC 6902) in place."""
    *parents, last = operation["path"].removeprefix("/").split("/")
    place: Any = target
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    value = deepcopy(operation.get("value"))
    if isinstance(place, list):
        _change_list(place, last, operation["op"], value)
    elif operation["op"] == "remove":
        del place[last]
    else:
        place[last] = value


def _change_list(place: list[Any], index: str, operation: str, value: Any) -> None:  # noqa: ANN401 - what YAML can say
    if operation == "add":
        place.insert(len(place) if index == "-" else int(index), value)
    elif operation == "remove":
        del place[int(index)]
    else:
        place[int(index)] = value


def _pod_spec(document: Json) -> Json:
    """Return the pod spec of a workload's template; empty for other kinds."""
    spec: Json = document.get("spec", {}).get("template", {}).get("spec", {}) if document["kind"] in KINDS_LAST else {}
    return spec


def _rename_config_maps(document: Json, renamed: Mapping[str, str]) -> None:
    for volume in _pod_spec(document).get("volumes", ()):
        if (name := volume.get("configMap", {}).get("name")) in renamed:
            volume["configMap"]["name"] = renamed[name]


def _set_images(document: Json, images: Mapping[str, str]) -> None:
    spec = _pod_spec(document)
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        name = str(container["image"]).partition(":")[0]
        container["image"] = images.get(name, container["image"])
