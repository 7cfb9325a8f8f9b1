"""Answers discovery requests: versions, groups and resources, one request per group or aggregated.

A client requests aggregated discovery by its Accept header; kubectl has done so since 1.26.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from dra.kube.transport import JSON, Request, Response
from dra.model.releases import Release
from localplane import status_errors
from localplane.kinds.catalog import Catalog
from localplane.kinds.kind import Kind
from localplane.kinds.subresource import Subresource
from localplane.objects import Object, encode

AGGREGATED_DISCOVERY_MEDIA_TYPE: Final = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_AGGREGATED_PARAMETERS: Final = frozenset(AGGREGATED_DISCOVERY_MEDIA_TYPE.split(";"))

_VERSION_PATTERN: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES: Final = (None, "beta", "alpha")

_SERVER_ADDRESSES: Final = [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]


def version_info(release: Release) -> Object:
    """Return the version info served at ``/version``."""
    return {
        "major": "1",
        "minor": str(release.minor),
        "emulationMajor": "1",
        "emulationMinor": str(release.minor),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": str(release.minor - 1),
        "gitVersion": f"v{release}.0+dra-reserve",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def respond(request: Request, catalog: Catalog, *, release: Release) -> Response | None:
    """Return the response to a discovery request, None for any other path."""
    match request.path.strip("/").split("/"):
        case ["version"]:
            answer: Object | None = version_info(release)
        case ["api"]:
            if _wants_aggregated(request.accept):
                return _aggregated_response(request, (kind for kind in catalog if not kind.group))
            answer = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": _SERVER_ADDRESSES}
        case ["apis"]:
            if _wants_aggregated(request.accept):
                return _aggregated_response(request, (kind for kind in catalog if kind.group))
            groups = [
                _api_group(name, kinds) for name, kinds in _group_by_group(kind for kind in catalog if kind.group)
            ]
            answer = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group]:
            kinds = [kind for kind in catalog if kind.group == group]
            answer = {"kind": "APIGroup", "apiVersion": "v1"} | _api_group(group, kinds) if kinds else None
        case ["api", name]:
            answer = _api_resource_list("", name, catalog)
        case ["apis", group, name]:
            answer = _api_resource_list(group, name, catalog)
        case _:
            return None
    if answer is None:
        return None
    return _require_get(request, Response(200, {"content-type": JSON}, encode(answer)))


def _require_get(request: Request, response: Response) -> Response:
    if request.method not in ("GET", "HEAD"):
        raise status_errors.method_not_allowed()
    return response


def _wants_aggregated(accept: str) -> bool:
    """Return whether a client accepts aggregated discovery; the order of the parameters does not matter."""
    return any(
        frozenset(part.strip() for part in form.split(";")) >= _AGGREGATED_PARAMETERS for form in accept.split(",")
    )


def _aggregated_response(request: Request, kinds: Iterable[Kind]) -> Response:
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": name,
                    "resources": [_resource_discovery(kind) for kind in of_version],
                    "freshness": "Current",
                }
                for name, of_version in _group_by_version(of_group)
            ],
        }
        for group, of_group in _group_by_group(kinds)
    ]
    body: Object = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
    return _require_get(
        request, Response(200, {"content-type": AGGREGATED_DISCOVERY_MEDIA_TYPE}, encode(body | {"items": items}))
    )


def _resource_discovery(kind: Kind) -> Object:
    resource: Object = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind, kind.name),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
    }
    return (
        resource
        | _short_names_and_categories(kind)
        | _if_not_empty("subresources", [_subresource_discovery(kind, part) for part in kind.subresources])
    )


def _subresource_discovery(kind: Kind, part: Subresource) -> Object:
    response = {"group": part.group, "version": part.version, "kind": part.kind}
    return {
        "subresource": part.name,
        "responseKind": response if part.kind else _response_kind(kind, kind.name),
        "verbs": list(part.verbs),
    }


def _response_kind(kind: Kind, name: str) -> Object:
    """Return the responseKind of a resource; only custom kinds name their group and version."""
    group, version = (kind.group, kind.version) if kind.is_custom else ("", "")
    return {"group": group, "version": version, "kind": name}


def _api_group(name: str, kinds: Iterable[Kind]) -> Object:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version, _ in _group_by_version(kinds)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _api_resource_list(group: str, version: str, catalog: Catalog) -> Object | None:
    kinds = [kind for kind in catalog if (kind.group, kind.version) == (group, version)]
    if not kinds:
        return None
    resources = [resource for kind in sorted(kinds, key=lambda kind: kind.plural) for resource in _api_resources(kind)]
    resource_list: Object = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": kinds[0].api_version}
    if not group:
        resource_list.pop("apiVersion")  # as upstream writes it
    return resource_list | {"resources": resources}


def _api_resources(kind: Kind) -> Iterator[Object]:
    scope: Any = {"namespaced": kind.namespaced}
    yield (
        {"name": kind.plural, "singularName": kind.singular}
        | scope
        | {"kind": kind.name, "verbs": _verbs(kind)}
        | _short_names_and_categories(kind)
    )
    for part in kind.subresources:
        of: Object = {"group": part.group, "version": part.version} if part.kind else {}
        api_resource: Object = {"name": f"{kind.plural}/{part.name}", "singularName": ""}
        yield api_resource | scope | of | {"kind": part.kind or kind.name, "verbs": list(part.verbs)}


_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""Verbs of custom kinds in upstream's order."""


def _verbs(kind: Kind) -> list[str]:
    return [verb for verb in _CUSTOM_VERBS if verb in kind.verbs] if kind.is_custom else list(kind.verbs)


def _short_names_and_categories(kind: Kind) -> Object:
    return _if_not_empty("shortNames", list(kind.short_names)) | _if_not_empty("categories", list(kind.categories))


def _if_not_empty(name: str, values: list[Any]) -> Object:
    return {name: values} if values else {}


def _group_by_group(kinds: Iterable[Kind]) -> Iterator[tuple[str, list[Kind]]]:
    """Group kinds by API group, ordered by the names of the groups."""
    for name, of_group in groupby(
        sorted(kinds, key=lambda kind: (kind.group, kind.plural)), key=lambda kind: kind.group
    ):
        yield name, list(of_group)


def _group_by_version(kinds: Iterable[Kind]) -> Iterator[tuple[str, list[Kind]]]:
    """Group kinds of one group by version, the preferred one first (v2 before v1 before v1beta1 before v1alpha1)."""
    by_version: dict[str, list[Kind]] = {}
    for kind in kinds:
        by_version.setdefault(kind.version, []).append(kind)
    yield from sorted(by_version.items(), key=lambda pair: kube_aware_version_key(pair[0]))


def kube_aware_version_key(version: str) -> tuple[int, int, int, str]:
    """Return the sort key of a version among the versions of its group; the smallest is preferred."""
    if (matched := _VERSION_PATTERN.fullmatch(version)) is None:
        return len(_STAGES), 0, 0, version
    major, stage, minor = matched.groups()
    return _STAGES.index(stage), -int(major), -int(minor or 0), version
