"""``kubectl apply -f examples/NAME/`` works: files are applied in the order of their names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[1] / "examples"
WITH_A_NAMESPACE = sorted(path.parent for path in EXAMPLES.rglob("*namespace.yaml"))


def objects(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def test_folders_that_apply_as_a_whole_are_known() -> None:
    assert [path.name for path in WITH_A_NAMESPACE] == ["colocation", "koordinator"]


@pytest.mark.parametrize("folder", WITH_A_NAMESPACE, ids=lambda path: path.name)
def test_a_namespace_comes_before_the_objects_in_it(folder: Path) -> None:
    created = set()
    for found in objects(folder):
        metadata = found["metadata"]
        if found["kind"] == "Namespace":
            created.add(metadata["name"])
        assert metadata.get("namespace") in {None, *created}, f"{found['kind']} {metadata['name']}"
