"""docs/reference/crds.md: the fields of our CRDs, from the manifests in crds/."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from dra.cli.reference import markdown

CRDS_FOLDER: Final = Path(__file__).parents[3] / "crds"
LEVELS_SHOWN: Final = 3
"""Levels shown below spec and status: a pod template has hundreds of fields, and Kubernetes documents them."""

_OMITTED_FIELDS: Final = ("apiVersion", "kind", "metadata", "spec.template.")


_INTRODUCTION: Final = (
    "What may be written into each kind; `kubectl explain` says the same on a cluster. Claims, classes and slices\n"
    "are Kubernetes' own; what we put on them are [annotations](annotations.md).\n"
)


def page() -> str:
    """Return docs/reference/crds.md as Markdown."""
    parts = [_INTRODUCTION]
    for file in sorted(CRDS_FOLDER.glob("*.yaml")):
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        if document.get("kind") == "CustomResourceDefinition":
            parts += _crd_section(document)
    return markdown.page("CRDs", *parts)


def _crd_section(crd: dict[str, Any]) -> Iterator[str]:
    spec = crd["spec"]
    short = ", ".join(f"`{name}`" for name in spec["names"].get("shortNames", ()))
    for version in spec["versions"]:
        yield f"## {spec['names']['kind']} ({spec['group']}/{version['name']})\n"
        yield f"{spec['scope']}; short names: {short or 'none'}.\n"
        rows = [
            (f"`{where}`", kind, text)
            for where, kind, text in _schema_fields(version["schema"]["openAPIV3Schema"], "", LEVELS_SHOWN)
            if not where.startswith(_OMITTED_FIELDS)
        ]
        yield markdown.table(("field", "type", "description"), rows)


def _schema_fields(schema: dict[str, Any], path: str, depth: int) -> Iterator[tuple[str, str, str]]:
    for name, child in schema.get("properties", {}).items():
        choices = ", ".join(f"`{choice}`" for choice in child.get("enum", ()) if choice)
        default = f"; default `{child['default']}`" if "default" in child else ""
        text = " ".join(child.get("description", "").split())
        yield path + name, child.get("type", "any") + (f": {choices}" if choices else "") + default, text
        if depth > 0:
            yield from _schema_fields(child, f"{path}{name}.", depth - 1)
            yield from _schema_fields(child.get("items", {}), f"{path}{name}[].", depth - 1)
