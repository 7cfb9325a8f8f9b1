"""Writes localplane/schemas/numbers.json: the numbers that fields have in protobuf, from the .proto files of
Kubernetes.

    python -m tests.cluster.protobuf         write the file

Only types that structures.json knows. A field that JSON does not know holds a struct whose fields JSON has in the
place of it; of such a field the type is noted as well.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

from tests.cluster import binaries

FOLDER: Final = binaries.HERE.parents[1] / "localplane" / "schemas"
STRUCTURES: Final = FOLDER / "structures.json"
OUTPUT: Final = FOLDER / "numbers.json"

MODULES: Final = ("api", "apimachinery", "apiextensions-apiserver")

_MESSAGE: Final = re.compile(r"^message (\w+) \{(.*?)^\}", re.DOTALL | re.MULTILINE)
_FIELD: Final = re.compile(r"^  (?:optional |repeated )?(map<[^>]+>|\S+) (\w+) = (\d+);", re.MULTILINE)


def main() -> None:
    """Write the file."""
    structures = json.loads(STRUCTURES.read_text(encoding="utf-8"))
    version = structures["kubernetes"].replace("v1.", "v0.")
    messages: dict[str, dict[str, Any]] = {}
    for module in MODULES:
        root = _folder(f"k8s.io/{module}@{version}")
        for file in sorted(root.rglob("generated.proto")):
            _read(file, root=root, module=module, into=messages)
    known = structures["definitions"]
    found = {
        name: numbers
        for name, definition in known.items()
        if (numbers := _numbers(messages.get(name, {}), definition)) and name in messages
    }
    inlined = {kind for numbers in found.values() for _, kind in numbers.values() if kind}
    while missing := inlined - found.keys():
        found |= {name: _plain(messages[name]) for name in missing}
    text = json.dumps(dict(sorted(found.items())), separators=(",", ":"), sort_keys=True)
    OUTPUT.write_text(text + "\n", encoding="utf-8")


def _folder(module: str) -> Path:
    command = ["go", "mod", "download", "-json", module]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/")
    return Path(json.loads(answer.stdout)["Dir"])


def _read(file: Path, *, root: Path, module: str, into: dict[str, dict[str, Any]]) -> None:
    package = ".".join(("io", "k8s", module, *file.parent.relative_to(root).parts))
    for name, body in _MESSAGE.findall(file.read_text(encoding="utf-8")):
        fields = {int(number): (field, _absolute(kind, package)) for kind, field, number in _FIELD.findall(body)}
        into[f"{package}.{name}"] = fields


def _absolute(kind: str, package: str) -> str:
    """Return the name of a message as structures.json has it; scalars and maps are not needed."""
    if kind.startswith(".k8s.io."):
        return "io.k8s." + kind.removeprefix(".k8s.io.")
    return f"{package}.{kind}" if kind[0].isupper() else ""


def _numbers(fields: dict[int, tuple[str, str]], definition: dict[str, Any]) -> dict[int, list[str]]:
    known = definition.get("properties", {})
    return {number: [name, "" if name in known else kind] for number, (name, kind) in fields.items()}


def _plain(fields: dict[int, tuple[str, str]]) -> dict[int, list[str]]:
    return {number: [name, ""] for number, (name, _) in fields.items()}


if __name__ == "__main__":
    main()
