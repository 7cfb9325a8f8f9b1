"""Keeps the kinds that the server serves; custom kinds are added and removed while the server runs."""

from collections.abc import Iterable, Iterator

from localplane.kinds.kind import Kind
from localplane.objects import Object


class Catalog:
    """The catalog of served kinds, by group, version and plural."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        for kind in kinds:
            self.add(kind)

    def __iter__(self) -> Iterator[Kind]:
        """Yield the kinds in the order in which they were added."""
        return iter(tuple(self._kinds.values()))

    def add(self, kind: Kind) -> None:
        """Add a kind; replace a kind of the same group, version and plural."""
        self._kinds[kind.group, kind.version, kind.plural] = kind

    def remove(self, kind: Kind) -> None:
        """Remove a kind from the catalog."""
        self._kinds.pop((kind.group, kind.version, kind.plural), None)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind of a group, version and plural; None if there is none."""
        return self._kinds.get((group, version, plural))

    def kind_of(self, obj: Object) -> Kind | None:
        """Return the kind of an object, None if it is not served."""
        group, _, version = obj.get("apiVersion", "").rpartition("/")
        kinds = (kind for kind in self._kinds.values() if (kind.group, kind.version) == (group, version))
        return next((kind for kind in kinds if kind.name == obj.get("kind")), None)
