"""Writes the manifests in crds/ from the models in dra/api: ``python -m dra.cli.crd_manifests``.

A test compares the two, so that neither can be changed alone.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from dra.api.colocation import node_metric_crd
from dra.api.koordinator import device_crd
from dra.api.migration import crd as migration_crd
from dra.api.profiles import crd as profile_crd
from dra.api.profiles import parameters_crd
from dra.api.reservations import crd as reservation_crd

CRDS_FOLDER: Final = Path(__file__).parents[2] / "crds"

_HEADER: Final = "# Made by `python -m dra.cli.crd_manifests` from dra/api; change the model there, not this file.\n"


class _PlainDumper(yaml.SafeDumper):
    """A dumper without aliases, which kubectl diff and people would have to resolve."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def manifests() -> dict[str, str]:
    """Return the manifests as file name → content."""
    documents = (
        reservation_crd.custom_resource_definition(),
        migration_crd.custom_resource_definition(),
        device_crd.custom_resource_definition(),
        profile_crd.custom_resource_definition(),
        parameters_crd.custom_resource_definition(),
        node_metric_crd.custom_resource_definition(),
    )
    return {f"{document['metadata']['name']}.yaml": _HEADER + _yaml(document) for document in documents}


def _yaml(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_PlainDumper, sort_keys=False, width=120, allow_unicode=True)


def main() -> None:
    """Write all manifests into crds/."""
    CRDS_FOLDER.mkdir(exist_ok=True)
    for name, text in manifests().items():
        (CRDS_FOLDER / name).write_text(text, encoding="utf-8")
        print(CRDS_FOLDER / name)


if __name__ == "__main__":
    main()
