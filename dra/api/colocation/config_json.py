"""JSON of ConfigMaps and annotations, with decimals as they are written and without names that are given twice."""

import json
from decimal import Decimal
from typing import Any, NoReturn


class MalformedJsonError(ValueError):
    """A text that is no JSON object."""


def decode_object(text: str) -> dict[str, Any]:
    """Return a JSON object; raises MalformedJsonError, which says where the error is."""
    try:
        content = json.loads(text, parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise MalformedJsonError(f"is not valid JSON: {error}") from error
    except RecursionError as error:
        raise MalformedJsonError("is nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits, or one of ours
        raise MalformedJsonError(f"is not valid: {error}") from error
    if not isinstance(content, dict):
        raise MalformedJsonError("is not a JSON object")
    return content


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, value in pairs:
        if name in content:
            raise ValueError(f"{name[:64]!r} is given twice")
        content[name] = value
    return content
