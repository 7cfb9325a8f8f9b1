"""Evaluates admission policies without an API server; in the scenarios a real one judges the same policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from dra.cel import expressions

DEPLOY = Path(__file__).parents[2] / "deploy"


def policy(file: str, name: str = "") -> dict[str, Any]:
    """The spec of a policy in a file below deploy/; without a name, of the first one."""
    found = [obj for obj in yaml.safe_load_all((DEPLOY / file).read_text()) if obj["kind"].endswith("Policy")]
    return next(obj["spec"] for obj in found if name in {"", obj["metadata"]["name"]})


def judge(
    spec: dict[str, Any], request: dict[str, Any], *, obj: Any = None, old: Any = None, namespace: Any = None
) -> tuple[bool, str]:
    """Return whether the policy lets a request pass, and what it says."""
    dynamic = expressions.cel.Type.DYN
    names = ("request", "object", "oldObject", "variables", "namespaceObject")
    within = expressions.environment(dict.fromkeys(names, dynamic))
    data = {"request": request, "object": obj, "oldObject": old, "variables": {}, "namespaceObject": namespace}

    def value(text: str) -> Any:
        return expressions.Expression(text, within).evaluate(data)

    if not all(value(each["expression"]) for each in spec["matchConditions"]):
        return True, ""
    for variable in spec.get("variables", ()):
        data["variables"][variable["name"]] = value(variable["expression"])
    for each in spec["validations"]:
        if not value(each["expression"]):
            return False, each.get("message") or value(each["messageExpression"])
    return True, ""
