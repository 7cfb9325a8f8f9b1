"""Fields of manifests that no API server knows: ``kubectl apply`` refuses the manifest, and nothing reads the field.

The types are those of the local plane, which were recorded from a real API server. A newer server may have more fields.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from dra.cli.kubectl.manifests import flatten_lists
from localplane.schemas.builtin_schemas import Dialect, load_builtin_schemas, recorded_version
from localplane.schemas.go_decoder import UnmarshalTypeError, struct_decoder
from localplane.schemas.scalars import ScalarDecodeError

UNKNOWN_FIELDS_MAX: Final = 8
"""Maximum number of fields that are named for one manifest."""


def unknown_field_texts(documents: Iterable[Any]) -> Iterator[str]:
    """Yield a text for each manifest of a built-in kind that has unknown or duplicate fields."""
    schemas, release = load_builtin_schemas(Dialect.KEP), recorded_version().removeprefix("v")
    for document in flatten_lists(documents):
        group, _, version = str(document.get("apiVersion", "")).rpartition("/")
        kind = str(document.get("kind", ""))
        schema = schemas.find(group, version, kind)
        if schema is None:
            continue
        warnings: list[str] = []
        try:
            struct_decoder(schema).read(document, "", warnings)
        except (UnmarshalTypeError, ScalarDecodeError):
            continue  # parsing the manifest says more
        if warnings:
            name = (document.get("metadata") or {}).get("name", "")
            more = f" and {len(warnings) - UNKNOWN_FIELDS_MAX} more" if len(warnings) > UNKNOWN_FIELDS_MAX else ""
            yield (
                f"{kind.lower()} {name}: {', '.join(warnings[:UNKNOWN_FIELDS_MAX])}{more} in Kubernetes {release}: "
                "a strict API server refuses the manifest, and the simulation ignores the field"
            )
