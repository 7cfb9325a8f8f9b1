"""Writes dra-reserve/values.schema.json from the models in dra/api: ``make chart``; with --check it only compares.

The configuration's part is the model that the controller itself reads it with, less the fields that the chart sets; a
switch for each file of deploy/policies is added. So a new field or policy is a value as soon as this has run.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from dra.api.chart import OWNED_BY_THE_CHART, ChartValues

HERE: Final = Path(__file__).parents[1] / "deploy/helm"
SCHEMA: Final = HERE / "dra-reserve" / "values.schema.json"
POLICIES: Final = HERE.parent / "policies"

Json = dict[str, Any]


def policies() -> list[str]:
    """Return the names of the policies as values: own-slices.yaml is ownSlices."""
    words = [path.stem.split("-") for path in sorted(POLICIES.glob("*.yaml")) if path.stem != "kustomization"]
    return [first + "".join(word.capitalize() for word in rest) for first, *rest in words]


def schema() -> Json:
    """Return the schema of the chart's values."""
    made = ChartValues.model_json_schema()
    definitions = made["$defs"]
    for field in OWNED_BY_THE_CHART:
        section, _, name = field.rpartition(".")
        owner = definitions["ControllerConfiguration"]
        if section:
            owner = definitions[owner["properties"][section]["$ref"].rpartition("/")[2]] if section else owner
        del owner["properties"][name]
    made["properties"]["policies"] = {
        "type": "object",
        "description": made["properties"]["policies"]["description"],
        "additionalProperties": False,
        "properties": {name: {"type": "boolean"} for name in policies()},
    }
    _forget_defaults(made)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | made


def _forget_defaults(node: Any) -> None:  # noqa: ANN401 - any JSON
    """Drop titles and the defaults of whole sections: values.yaml has them, and Helm reads none from here."""
    if isinstance(node, list):
        for item in node:
            _forget_defaults(item)
    elif isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        if isinstance(node.get("default"), dict):
            del node["default"]
        for value in node.values():
            _forget_defaults(value)


def text() -> str:
    """Return the file's content."""
    return json.dumps(schema(), indent=2) + "\n"


def main(arguments: list[str]) -> int:
    """Write the file, or say that it is not what the models make."""
    if arguments == ["--check"]:
        if SCHEMA.exists() and SCHEMA.read_text(encoding="utf-8") == text():
            return 0
        sys.stderr.write(f"error: {SCHEMA}: not what dra/api and deploy/policies make; run: make chart\n")
        return 1
    SCHEMA.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
