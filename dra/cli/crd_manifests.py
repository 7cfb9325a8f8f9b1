"""Writes the manifests in crds/ from the models in dra/api: ``python -m dra.cli.crd_manifests``.

A test compares the two, so that neither can be changed alone.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from dra.api.reservations import crd, model

CRDS_FOLDER: Final = Path(__file__).parents[2] / "crds"

_HEADER: Final = "# Made by `python -m dra.cli.crd_manifests` from dra/api; change the model there, not this file.\n"


def manifests() -> dict[str, str]:
    """Return the manifests as file name → content."""
    found: dict[str, dict[str, Any]] = {f"{model.PLURAL}.{model.GROUP}.yaml": crd.custom_resource_definition()}
    return {
        name: _HEADER + yaml.safe_dump(each, sort_keys=False, width=120, allow_unicode=True)
        for name, each in found.items()
    }


def main() -> None:
    """Write all manifests into crds/."""
    CRDS_FOLDER.mkdir(exist_ok=True)
    for name, text in manifests().items():
        (CRDS_FOLDER / name).write_text(text, encoding="utf-8")
        print(CRDS_FOLDER / name)


if __name__ == "__main__":
    main()
