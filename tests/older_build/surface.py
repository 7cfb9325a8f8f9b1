"""Prints what users of a build can refer to, as JSON: run in that build, with its tree as the only argument.

Nothing here depends on where a name is defined: keys are found by their form in all sources, commands through the entry
points of the package, everything else in the pages and files that the build writes of itself.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = ("dra", "controller", "kubeletplugin")
KEY = re.compile(r"(?:[a-z0-9-]+\.)*(?:reserve\.dra|koordinator\.sh)(?:/[A-Za-z0-9][A-Za-z0-9._-]*)?")
PAGES = ("metrics", "reasons", "configuration")
SCHEMA_WORDS = ("type", "format", "enum", "default", "pattern", "minimum", "maximum")
LIMITS = ("maxLength", "maxItems", "maxProperties")

Json = dict[str, Any]


def keys(tree: Path) -> Iterator[str]:
    """Yield the annotations, labels, finalizers, gates and driver names in the sources."""
    for package in PACKAGES:
        for path in sorted((tree / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEY.fullmatch(node.value):
                    yield node.value
            if path.name != "__main__.py":  # keys that are put together: constants of modules
                module = importlib.import_module(".".join(path.relative_to(tree).with_suffix("").parts))
                yield from (each for each in vars(module).values() if isinstance(each, str) and KEY.fullmatch(each))


def tables(page: str) -> Iterator[tuple[str, Json]]:
    """Yield each row of the tables of a Markdown page: heading and first cell, and the other cells by column."""
    heading, columns = "", []
    for line in page.splitlines():
        if line.startswith("#"):
            heading, columns = line.lstrip("# "), []
        elif not line.startswith("|"):
            columns = []
        else:
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not columns:
                columns = cells
            elif set(cells[0]) - set("-: "):
                yield f"{heading}: {cells[0].strip('`')}", dict(zip(columns[1:], cells[1:], strict=True))


def pages(tree: Path) -> dict[str, str]:
    """Return the pages of reference that the build writes of itself."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(tree / "docs", Path(folder) / "docs")
        for notes in tree.glob("*.md"):
            shutil.copy(notes, folder)
        subprocess.run([sys.executable, "-P", "-m", "dra.cli.reference"], cwd=folder, check=True)
        return {page: (Path(folder) / "docs/reference" / f"{page}.md").read_text() for page in PAGES}


def commands(tree: Path) -> Iterator[tuple[str, Json]]:
    """Yield each command and each of its parameters."""
    scripts = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["scripts"]
    for name, entry in scripts.items():
        module, _, attribute = entry.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        if isinstance(found, click.Command):
            yield from parameters(found, name)
        else:
            yield name, {}


def parameters(command: click.Command, path: str) -> Iterator[tuple[str, Json]]:
    yield path, {}
    context = click.Context(command, info_name=path)
    for each in command.get_params(context):
        kind = each.type
        shape = {
            "choices": [getattr(choice, "value", str(choice)) for choice in getattr(kind, "choices", ())],
            "repeated": each.multiple or each.nargs != 1,
            "required": each.required,
            "flag": getattr(each, "is_flag", False),
        }
        for option in (*each.opts, *each.secondary_opts):
            yield f"{path} {option if option.startswith('-') else option.upper()}", shape
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from parameters(below, f"{path} {name}")


def schemas(tree: Path) -> Iterator[tuple[str, Json]]:
    """Yield each version and each field of the CRDs."""
    for file in sorted((tree / "crds").glob("*.yaml")):
        for crd in yaml.safe_load_all(file.read_text()):
            if crd.get("kind") != "CustomResourceDefinition":
                continue
            spec, names = crd["spec"], crd["spec"]["names"]
            for version in spec["versions"]:
                path = f"{crd['metadata']['name']} {version['name']}"
                served = {key: version[key] for key in ("served", "storage")}
                yield (
                    path,
                    {
                        **served,
                        "scope": spec["scope"],
                        "kind": names["kind"],
                        "status": "status" in version.get("subresources", {}),
                    },
                )
                yield from fields(version["schema"]["openAPIV3Schema"], path)


def fields(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    required = set(schema.get("required", ()))
    below = {f"{path}.{name}": value for name, value in schema.get("properties", {}).items()}
    for part, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(part), dict):
            below[path + suffix] = schema[part]
    for where, value in below.items():
        shape = {word: value[word] for word in SCHEMA_WORDS if word in value}
        limits = {word: value[word] for word in LIMITS if word in value}
        rules = sorted(rule["rule"] for rule in value.get("x-kubernetes-validations", ()))
        name = where.rpartition(".")[2]
        yield where, {**shape, "limits": limits, "rules": rules, "required": name in required}
        yield from fields(value, where)


def main() -> None:
    """Print the surface of the build in a tree."""
    tree = Path(sys.argv[1])
    written = pages(tree)
    surface: dict[str, Json] = {"keys": {key: {} for key in sorted(set(keys(tree)))}}
    surface |= {page: dict(tables(text)) for page, text in written.items()}
    # A reason is the same reason below any heading; metrics and fields are those of one process.
    surface["reasons"] = {name.rpartition(": ")[2]: row for name, row in surface["reasons"].items()}
    surface |= {"commands": dict(commands(tree)), "crds": dict(schemas(tree))}
    json.dump(surface, sys.stdout, default=str)


if __name__ == "__main__":
    main()
