"""What the fields of the built-in kinds mean, for ``kubectl explain``: the texts of the installed `kubernetes` package.

Its models are read as text, one small file when a type is asked for: importing them would take seconds and 100 MB. A
type or field it does not know has no text; a field that is another type and has none of its own has that type's.
"""

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_PACKAGE: Final = "kubernetes"  # not imported: only looked for

_CLASS_PATTERN: Final = re.compile(
    r'^class V\w+\(.*\):\n    """\n    (.*?)\n\n    Attributes:', re.MULTILINE | re.DOTALL
)
_FIELD_PATTERN: Final = re.compile(
    r"""^    (\w+): .*?(?:serialization_alias="(\w+)".*?)?description=("(?:[^"\\]|\\.)*")""", re.MULTILINE
)


@cache
def describe_type(definition: str) -> tuple[str, dict[str, str]]:
    """Return what is said of a type, by its name in OpenAPI, and of its fields."""
    file = _model_file(definition)
    if file is None:
        return "", {}
    source = file.read_text(encoding="utf-8")
    about = _CLASS_PATTERN.search(source)
    fields = {
        alias or name: str(ast.literal_eval(text))
        for name, alias, text in _FIELD_PATTERN.findall(source)
        if text is not None
    }
    return about[1] if about else "", fields


def _model_file(definition: str) -> Path | None:
    group, version, name = definition.split(".")[-3:]
    known = _model_files()
    for guess in (f"{group}{version}{name}", f"{version}{name}"):
        if found := known.get(guess.lower()):
            return found
    return None


@cache
def _model_files() -> dict[str, Path]:
    """Return the models by their names without underscores: ``v1podspec``."""
    spec = find_spec(_PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return {
        file.stem.replace("_", ""): file
        for place in places
        for file in (Path(place) / "client" / "models").glob("*.py")
    }
