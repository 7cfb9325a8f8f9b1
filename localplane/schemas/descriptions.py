"""Reads the descriptions of built-in types and fields for ``kubectl explain`` from the installed `kubernetes` package.

The package's models are read as text, one small file per requested type: importing the models would take seconds and
100 MB. A type or field that the package does not know has no description; a field without its own description gets the
description of its type.
"""

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_PACKAGE: Final = "kubernetes"  # only located, never imported

_CLASS_PATTERN: Final = re.compile(
    r'^class V\w+\(.*\):\n    """\n    (.*?)\n\n    Attributes:', re.MULTILINE | re.DOTALL
)
_FIELD_PATTERN: Final = re.compile(
    r"""^    (\w+): .*?(?:serialization_alias="(\w+)".*?)?description=("(?:[^"\\]|\\.)*")""", re.MULTILINE
)


@cache
def describe_type(definition: str) -> tuple[str, dict[str, str]]:
    """Return the description of a type, by its OpenAPI name, and the descriptions of its fields."""
    file = _model_file(definition)
    if file is None:
        return "", {}
    source = file.read_text(encoding="utf-8")
    docstring = _CLASS_PATTERN.search(source)
    fields = {
        alias or name: str(ast.literal_eval(text))
        for name, alias, text in _FIELD_PATTERN.findall(source)
        if text is not None
    }
    return docstring[1] if docstring else "", fields


def _model_file(definition: str) -> Path | None:
    group, version, name = definition.split(".")[-3:]
    known = _model_files()
    for guess in (f"{group}{version}{name}", f"{version}{name}"):
        if path := known.get(guess.lower()):
            return path
    return None


@cache
def _model_files() -> dict[str, Path]:
    """Return the model files by their names without underscores: ``v1podspec``."""
    spec = find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return {
        file.stem.replace("_", ""): file
        for place in places
        for file in (Path(place) / "client" / "models").glob("*.py")
    }
