"""Evaluates admission policies without an API server; in the scenarios a real one judges the same policies."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from dra.cel import expressions
from dra.cel.evaluator import cel

if TYPE_CHECKING:
    from collections.abc import Iterable

DEPLOY = Path(__file__).parents[2] / "deploy"

EVERYWHERE: Final = "*"
"""The namespace of a right in all namespaces."""

_CHECK: Final = re.compile(
    r"authorizer\.group\('(?P<group>[^']*)'\)\.resource\('(?P<resource>[^']*)'\)(\.subresource\('(?P<part>[^']*)'\))?"
    r"(\.namespace\((?P<namespace>[\w.\[\]]+)\))?\s*(\.name\([\w.]+\))?\.check\('(?P<verb>[^']*)'\)\.allowed\(\)"
)


def policy(file: str, name: str = "") -> dict[str, Any]:
    """The spec of a policy in a file below deploy/; without a name, of the first one."""
    found = [obj for obj in yaml.safe_load_all((DEPLOY / file).read_text()) if obj["kind"].endswith("Policy")]
    return next(obj["spec"] for obj in found if name in {"", obj["metadata"]["name"]})


def judge(
    spec: dict[str, Any],
    request: dict[str, Any],
    *,
    obj: Any = None,
    old: Any = None,
    namespace: Any = None,
    rights: Iterable[str] = (),
) -> tuple[bool, str]:
    """Return whether the policy lets a request pass, and what it says.

    `rights` are those of the user, each as in `create pods/eviction.GROUP in NAMESPACE`, or `in *` for everywhere.
    """
    dynamic = cel().Type.DYN
    names = ("request", "object", "oldObject", "variables", "namespaceObject", "rights")
    within = expressions.environment(dict.fromkeys(names, dynamic))
    data = {
        "request": request,
        "object": obj,
        "oldObject": old,
        "variables": {},
        "namespaceObject": namespace,
        "rights": [*rights],
    }

    def value(text: str) -> Any:
        return expressions.Expression(_CHECK.sub(_as_right, text), within).evaluate(data)

    if not all(value(each["expression"]) for each in spec.get("matchConditions", ())):
        return True, ""
    wrong = {}
    for variable in spec.get("variables", ()):
        try:
            data["variables"][variable["name"]] = value(variable["expression"])
        except expressions.EvaluationError as error:  # an API server evaluates what is used
            wrong[variable["name"]] = str(error)
    for each in spec["validations"]:
        try:
            passes = value(each["expression"])
        except expressions.EvaluationError as error:
            raise AssertionError(f"{each['expression']}: {error}; variables without a value: {wrong}") from error
        if not passes:
            return False, each.get("message") or value(each["messageExpression"])
    return True, ""


def _as_right(found: re.Match[str]) -> str:
    """Return a check of the authorizer as a look into `rights`."""
    part = f"/{found['part']}" if found["part"] else ""
    group = f".{found['group']}" if found["group"] else ""
    right = f"'{found['verb']} {found['resource']}{part}{group} in '"
    return f"({right} + {found['namespace'] or repr(EVERYWHERE)} in rights || {right} + '{EVERYWHERE}' in rights)"
