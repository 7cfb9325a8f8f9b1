"""Admission policies as documents and as YAML; expressions become blocks of text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml

API_VERSION: Final = "admissionregistration.k8s.io/v1"


class _Dumper(yaml.SafeDumper):
    """A dumper that writes expressions as blocks, and nothing as an alias."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _block)


def dump(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return documents as YAML."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=100_000, allow_unicode=True)


def document(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy or a binding."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def pods(*operations: str, resources: Sequence[str] = ("pods",)) -> dict[str, Any]:
    """Return the match constraints of a policy on pods."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": list(operations), "resources": list(resources)}
    return {"resourceRules": [rule]}


def condition(name: str, expression: str) -> dict[str, str]:
    """Return a match condition or a variable."""
    return {"name": name, "expression": expression}


def named(expressions: Mapping[str, str]) -> list[dict[str, str]]:
    """Return expressions by name as a list of variables or match conditions."""
    return [condition(name, expression) for name, expression in expressions.items()]
