"""Resolves request paths such as ``/apis/batch/v1/namespaces/ml/jobs/train/status`` to kinds and names."""

from urllib.parse import unquote

import msgspec

from localplane.kinds.catalog import Catalog
from localplane.kinds.kind import Kind
from localplane.kinds.subresource import Subresource


class Route(msgspec.Struct, frozen=True):
    """The target of a path: a collection, or an object if `name` is set."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: Subresource | None = None


def is_under_builtin_version(path: str, catalog: Catalog) -> bool:
    """Return whether a path lies below a built-in group version."""
    match path.strip("/").split("/"):
        case ["api", version, _, *_]:
            group = ""
        case ["apis", group, version, _, *_]:
            pass
        case _:
            return False
    return any((kind.group, kind.version, kind.is_custom) == (group, version, False) for kind in catalog)


def resolve_path(path: str, catalog: Catalog) -> Route | None:
    """Return the target of a path, None if the server has no such resource."""
    parts = path.strip("/").split("/")
    match [unquote(part) for part in parts] if "%" in path else parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    match rest:  # a namespace is an object, and a parent of objects
        case ["namespaces", namespace, plural, *tail] if kind := _find_namespaced_kind(catalog, group, version, plural):
            return _route_of_tail(kind, namespace, tail)
        case [plural, *tail] if kind := catalog.find(group, version, plural):
            if kind.namespaced and tail:
                return None
            return _route_of_tail(kind, "", tail)
        case _:
            return None


def _find_namespaced_kind(catalog: Catalog, group: str, version: str, plural: str) -> Kind | None:
    kind = catalog.find(group, version, plural)
    return kind if kind is not None and kind.namespaced else None


def _route_of_tail(kind: Kind, namespace: str, tail: list[str]) -> Route | None:
    match tail:
        case []:
            return Route(kind, namespace)
        case [name]:
            return Route(kind, namespace, name)
        case [name, part] if subresource := kind.subresource(part):
            return Route(kind, namespace, name, subresource)
        case _:
            return None
