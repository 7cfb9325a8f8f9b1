"""Whether a value has the types and keeps the bounds of its schema.

The order of the checks, and which failure of an ``anyOf`` or ``oneOf`` is told (that of the alternative with the most
positive checks), are those of kube-openapi: so `_Verdict` counts what went well, too. An update may keep what was
wrong before: a part that equals its predecessor is not looked at (upstream: ratcheting).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from dra.cel.patterns import Pattern
from dra.local.crds import formats
from dra.local.crds.causes import child, plain
from dra.local.crds.lists import TYPE, key_of
from dra.local.crds.pruning import Node
from dra.local.kinds import causes
from dra.local.kinds.causes import shown
from dra.local.objects import encode
from dra.local.refusals import Cause, Fault

ABSENT: Final = object()
"""No predecessor."""


def check(value: object, schema: Node, *, old: object = ABSENT, under: str = "") -> list[Cause]:
    """Return what is wrong; `under` is where the value lies in its object, for the fields of the causes."""
    verdict = _Check(under).value(value, schema, "", old)
    return verdict.causes


@dataclass(slots=True)
class _Verdict:
    """What one check has found."""

    causes: list[Cause] = field(default_factory=list)
    passed: int = 0

    def merge(self, other: "_Verdict", *, passed: int = 0) -> None:
        self.causes += other.causes
        self.passed += other.passed + passed


@dataclass(frozen=True, slots=True)
class _Check:
    """A walk through a value."""

    under: str

    def value(self, value: object, schema: Node, path: str, old: object = ABSENT) -> _Verdict:
        verdict = _Verdict()
        if old is not ABSENT and value == old:
            return verdict
        if types := _types(schema):
            verdict.merge(self._type(value, schema, types, path), passed=1)
        if value is None:
            verdict.merge(self._enum(value, schema, path))
            return verdict
        verdict.merge(self._alternatives(value, schema, path), passed=1)
        match value:
            case str():
                verdict.merge(self._string(value, schema, path), passed=1)
            case bool():
                pass
            case int() | float():
                verdict.merge(self._number(value, schema, path), passed=1)
            case list():
                verdict.merge(self._list(value, schema, path, old), passed=1)
        verdict.merge(self._enum(value, schema, path), passed=1)
        if isinstance(value, dict):
            verdict.merge(self._object(value, schema, path, old), passed=1)
        verdict.passed += 1
        return verdict

    def _at(self, path: str) -> str:
        path = path.removeprefix(".")
        return child(self.under, path) if path and self.under else self.under or path

    def _bad(self, path: str, value: object, what: str, fault: Fault = Fault.INVALID) -> _Verdict:
        text = f"Invalid value: {shown(value)}: {path} in body {what}"
        return _Verdict([Cause(fault, self._at(path), text)])

    def _type(self, value: object, schema: Node, types: tuple[str, ...], path: str) -> _Verdict:
        wanted = ",".join(types)
        if value is None:
            if schema.get("nullable"):
                return _Verdict(passed=1)
            return self._bad(path, "null", f'must be of type {wanted}: "null"', Fault.TYPE)
        found = _type_of(value)
        whole = found == "number" and isinstance(value, float) and value.is_integer() and "integer" in types
        if found in types or whole or (found == "integer" and "number" in types):
            return _Verdict(passed=1)
        if isinstance(value, str | list) and schema.get("format") and not {"number", "integer"} & set(types):
            return _Verdict(passed=1)
        return self._bad(path, found, f"must be of type {wanted}: {shown(found)}", Fault.TYPE)

    def _enum(self, value: object, schema: Node, path: str) -> _Verdict:
        allowed = schema.get("enum")
        if not allowed or any(_same(value, each) for each in allowed):
            return _Verdict()
        texts = [each if isinstance(each, str) else encode(each).decode() for each in allowed]
        return _Verdict([causes.unsupported(self._at(path), value, texts)])

    def _string(self, value: str, schema: Node, path: str) -> _Verdict:
        verdict, most, least = _Verdict(), schema.get("maxLength"), schema.get("minLength")
        if most is not None and len(value) > most:
            verdict.causes.append(causes.too_long(self._at(path), most))
        elif least is not None and len(value) < least:
            verdict.merge(self._bad(path, value, f"should be at least {least} chars long"))
        elif (pattern := schema.get("pattern")) and not Pattern.of(pattern).found_in(value):
            verdict.merge(self._bad(path, value, f"should match '{pattern}'"))
        form = formats.known(schema.get("format") or "", schema.get("type") or "")
        if form and schema.get("type") in (None, "", "string") and not formats.fits(form, value):
            verdict.merge(self._bad(path, value, f"must be of type {form}: {shown(value)}", Fault.TYPE))
        return verdict

    def _number(self, value: float, schema: Node, path: str) -> _Verdict:
        verdict = _Verdict(passed=1)
        if outside := _outside(value, schema):
            verdict.causes.append(causes.invalid("", "", f"Checked value must be of type integer {outside} in {path}"))
        factor, least, most = (_limit(schema.get(name), value) for name in ("multipleOf", "minimum", "maximum"))
        if factor is not None and factor <= 0:
            text = f"factor MultipleOf declared for {path} must be positive: {plain(factor)}"
            verdict.causes.append(causes.invalid(self._at(path), factor, text))
        elif factor is not None and not _divides(factor, value):
            verdict.merge(self._bad(path, value, f"should be a multiple of {plain(factor)}"))
        if least is not None and (value <= least if schema.get("exclusiveMinimum") else value < least):
            relation = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
            verdict.merge(self._bad(path, value, f"should be {relation} {plain(least)}"))
        if most is not None and (value >= most if schema.get("exclusiveMaximum") else value > most):
            relation = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
            verdict.merge(self._bad(path, value, f"should be {relation} {plain(most)}"))
        return verdict

    def _list(self, value: list[Any], schema: Node, path: str, old: object) -> _Verdict:
        verdict = _Verdict(passed=1)
        items = schema.get("items")
        if isinstance(items, dict):
            before = predecessors(value, schema, old)
            for index, (item, was) in enumerate(zip(value, before, strict=True)):
                verdict.merge(self.value(item, items, f"{path}[{index}]", was))
        least, most = schema.get("minItems"), schema.get("maxItems")
        if least is not None and len(value) < least:
            verdict.merge(self._bad(path, len(value), f"should have at least {least} items"))
        if most is not None and len(value) > most:
            verdict.causes.append(causes.too_many(self._at(path), len(value), most))
        return verdict

    def _object(self, value: Node, schema: Node, path: str, old: object) -> _Verdict:
        verdict = _Verdict()
        least, most = schema.get("minProperties"), schema.get("maxProperties")
        if least is not None and len(value) < least:
            verdict.merge(self._bad(path, len(value), f"should have at least {least} properties"))
        if most is not None and len(value) > most:
            verdict.causes.append(causes.too_many(self._at(path), len(value), most))
        before = old if isinstance(old, dict) else {}
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            known = properties.get(name)
            here = child(path, name) if known is not None else f"{path}.{name}"
            if known is not None:
                verdict.merge(self.value(item, known, here, before.get(name, ABSENT)))
            elif isinstance(others, dict):
                verdict.merge(self.value(item, others, here, before.get(name, ABSENT)))
            elif others is False:
                verdict.merge(self._forbidden(path, name))
        missing = [name for name in schema.get("required") or () if name not in value]
        verdict.causes += [causes.required(self._at(f"{path}.{name}")) for name in missing]
        return verdict

    def _forbidden(self, path: str, name: str) -> _Verdict:
        text = f"{path}.{name} in body is a forbidden property"
        return _Verdict([causes.invalid(self._at(path), name, text)])

    def _alternatives(self, value: object, schema: Node, path: str) -> _Verdict:
        verdict = _Verdict(passed=1)
        for told in (self._any(value, schema, path), self._one(value, schema, path), self._all(value, schema, path)):
            verdict.merge(told)
        excluded = schema.get("not")
        if excluded is not None and not self.value(value, excluded, path).causes:
            verdict.causes.append(_composite(path, "must not validate the schema (not)"))
        return verdict

    def _any(self, value: object, schema: Node, path: str) -> _Verdict:
        tried = list(self._each(value, schema, "anyOf", path))
        good = next((each for each in tried if not each.causes), None)
        if good is not None or not tried:
            return good or _Verdict()
        verdict = _Verdict([_composite(path, "must validate at least one schema (anyOf)")])
        verdict.merge(max(tried, key=lambda each: each.passed))
        return verdict

    def _one(self, value: object, schema: Node, path: str) -> _Verdict:
        tried = list(self._each(value, schema, "oneOf", path))
        good = [each for each in tried if not each.causes]
        if len(good) == 1 or not tried:
            return good[0] if good else _Verdict()
        found = f"Found {len(good)} valid alternatives" if good else "Found none valid"
        verdict = _Verdict([_composite(path, f"must validate one and only one schema (oneOf). {found}")])
        if not good:
            verdict.merge(max(tried, key=lambda each: each.passed))
        return verdict

    def _all(self, value: object, schema: Node, path: str) -> _Verdict:
        verdict, tried = _Verdict(), list(self._each(value, schema, "allOf", path))
        for each in tried:
            verdict.merge(each)
        if any(each.causes for each in tried):
            none = "" if any(not each.causes for each in tried) else ". None validated"
            verdict.causes.append(_composite(path, f"must validate all the schemas (allOf){none}"))
        return verdict

    def _each(self, value: object, schema: Node, name: str, path: str) -> Iterator[_Verdict]:
        return (self.value(value, each, path) for each in schema.get(name) or ())


def predecessors(value: list[Any], schema: Node, old: object) -> list[object]:
    """Return what each entry of a list was before: only entries of lists that are maps are known again."""
    if not isinstance(old, list) or schema.get(TYPE) != "map":
        return [ABSENT] * len(value)
    before = {repr(sorted(key_of(item, schema).items())): item for item in old}
    return [before.get(repr(sorted(key_of(item, schema).items())), ABSENT) for item in value]


_RANGES: Final = {"int32": 2**31, "int64": 2**63}


def _composite(path: str, what: str) -> Cause:
    return causes.invalid("", "", f"{shown(path)} {what}")


def _types(schema: Node) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _type_of(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _same(value: object, allowed: object) -> bool:
    return value == allowed and isinstance(value, bool) == isinstance(allowed, bool)


def _outside(value: float, schema: Node) -> str:
    """Return which integers a value should be one of and is not."""
    if schema.get("type") != "integer":
        return ""
    form = schema.get("format")
    if form in _RANGES:
        return "" if value == int(value) and -_RANGES[form] <= value < _RANGES[form] else f"with format {form}"
    return "" if value == int(value) else "(default format)"


def _limit(limit: float | None, value: float) -> float | None:
    """Return a limit as upstream compares it with a value: with integers as an integer."""
    return int(limit) if limit is not None and isinstance(value, int) else limit


def _divides(factor: float, value: float) -> bool:
    ratio = value / factor
    return ratio == int(ratio)
