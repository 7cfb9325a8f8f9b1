"""Validates values against the types and bounds of their schema.

The order of checks, and the reported failure of an ``anyOf`` or ``oneOf`` (that of the alternative with the most passed
checks), are those of kube-openapi; `_ValidationResult` therefore also counts passed checks. An update may keep invalid
parts: a part that equals its old value is not validated (upstream: ratcheting).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from dra.cel.patterns import Pattern
from localplane.crds import string_formats
from localplane.crds.list_types import LIST_TYPE, map_key
from localplane.crds.pruning import JsonSchemaProps
from localplane.crds.schema_errors import child_path, format_number
from localplane.kinds import field_errors
from localplane.kinds.field_errors import format_value
from localplane.objects import encode
from localplane.status_errors import FieldError, FieldErrorType

NO_OLD_VALUE: Final = object()
"""Marks a value that has no old value."""


def validate_value(
    value: object,
    schema: JsonSchemaProps,
    *,
    old: object = NO_OLD_VALUE,
    root_path: str = "",
    typed_shortages: bool = False,
) -> list[FieldError]:
    """Return the errors of a value; `root_path` is the path of the value in its object.

    `typed_shortages`: what is too short or has too few items has an error of that type, as since 1.38.
    """
    result = _SchemaValidator(root_path, typed_shortages).value(value, schema, "", old)
    return result.causes


@dataclass(slots=True)
class _ValidationResult:
    """The result of a check: errors, and the number of passed checks."""

    causes: list[FieldError] = field(default_factory=list)
    match_count: int = 0

    def merge(self, other: "_ValidationResult", *, match_count: int = 0) -> None:
        self.causes += other.causes
        self.match_count += other.match_count + match_count


@dataclass(frozen=True, slots=True)
class _SchemaValidator:
    """Validates a value and its nested values."""

    root_path: str
    typed_shortages: bool

    def value(self, value: object, schema: JsonSchemaProps, path: str, old: object = NO_OLD_VALUE) -> _ValidationResult:
        result = _ValidationResult()
        if old is not NO_OLD_VALUE and value == old:
            return result
        if types := _allowed_types(schema):
            result.merge(self._type(value, schema, types, path), match_count=1)
        if value is None:
            result.merge(self._enum(value, schema, path))
            return result
        result.merge(self._alternatives(value, schema, path), match_count=1)
        match value:
            case str():
                result.merge(self._string(value, schema, path), match_count=1)
            case bool():
                pass
            case int() | float():
                result.merge(self._number(value, schema, path), match_count=1)
            case list():
                result.merge(self._list(value, schema, path, old), match_count=1)
        result.merge(self._enum(value, schema, path), match_count=1)
        if isinstance(value, dict):
            result.merge(self._object(value, schema, path, old), match_count=1)
        result.match_count += 1
        return result

    def _full_path(self, path: str) -> str:
        path = path.removeprefix(".")
        return child_path(self.root_path, path) if path and self.root_path else self.root_path or path

    def _body_error(
        self, path: str, value: object, what: str, fault: FieldErrorType = FieldErrorType.INVALID
    ) -> _ValidationResult:
        text = f"Invalid value: {format_value(value)}: {path} in body {what}"
        return _ValidationResult([FieldError(fault, self._full_path(path), text)])

    def _too_short(self, path: str, value: str, least: int) -> _ValidationResult:
        if self.typed_shortages:
            return _ValidationResult([field_errors.too_short(self._full_path(path), least)])
        return self._body_error(path, value, f"should be at least {least} chars long")

    def _too_few(self, path: str, count: int, least: int, what: str) -> _ValidationResult:
        if self.typed_shortages:
            return _ValidationResult([field_errors.too_few(self._full_path(path), count, least)])
        return self._body_error(path, count, f"should have at least {least} {what}")

    def _type(self, value: object, schema: JsonSchemaProps, types: tuple[str, ...], path: str) -> _ValidationResult:
        wanted = ",".join(types)
        if value is None:
            if schema.get("nullable"):
                return _ValidationResult(match_count=1)
            return self._body_error(path, "null", f'must be of type {wanted}: "null"', FieldErrorType.TYPE)
        json_type = _json_type(value)
        whole = json_type == "number" and isinstance(value, float) and value.is_integer() and "integer" in types
        if json_type in types or whole or (json_type == "integer" and "number" in types):
            return _ValidationResult(match_count=1)
        if isinstance(value, str | list) and schema.get("format") and not {"number", "integer"} & set(types):
            return _ValidationResult(match_count=1)
        return self._body_error(
            path, json_type, f"must be of type {wanted}: {format_value(json_type)}", FieldErrorType.TYPE
        )

    def _enum(self, value: object, schema: JsonSchemaProps, path: str) -> _ValidationResult:
        allowed = schema.get("enum")
        if not allowed or any(_json_equals(value, option) for option in allowed):
            return _ValidationResult()
        texts = [option if isinstance(option, str) else encode(option).decode() for option in allowed]
        return _ValidationResult([field_errors.not_supported(self._full_path(path), value, texts)])

    def _string(self, value: str, schema: JsonSchemaProps, path: str) -> _ValidationResult:
        result, most, least = _ValidationResult(), schema.get("maxLength"), schema.get("minLength")
        if most is not None and len(value) > most:
            result.causes.append(field_errors.too_long(self._full_path(path), most))
        elif least is not None and len(value) < least:
            result.merge(self._too_short(path, value, least))
        elif (pattern := schema.get("pattern")) and not Pattern.cached(pattern).search(value):
            result.merge(self._body_error(path, value, f"should match '{pattern}'"))
        form = string_formats.supported_format(schema.get("format") or "", schema.get("type") or "")
        if form and schema.get("type") in (None, "", "string") and not string_formats.has_format(form, value):
            result.merge(
                self._body_error(path, value, f"must be of type {form}: {format_value(value)}", FieldErrorType.TYPE)
            )
        return result

    def _number(self, value: float, schema: JsonSchemaProps, path: str) -> _ValidationResult:
        result = _ValidationResult(match_count=1)
        if outside := _integer_range(value, schema):
            result.causes.append(
                field_errors.invalid("", "", f"Checked value must be of type integer {outside} in {path}")
            )
        factor, least, most = (
            _comparable_limit(schema.get(name), value) for name in ("multipleOf", "minimum", "maximum")
        )
        if factor is not None and factor <= 0:
            text = f"factor MultipleOf declared for {path} must be positive: {format_number(factor)}"
            result.causes.append(field_errors.invalid(self._full_path(path), factor, text))
        elif factor is not None and not _divides(factor, value):
            result.merge(self._body_error(path, value, f"should be a multiple of {format_number(factor)}"))
        if least is not None and (value <= least if schema.get("exclusiveMinimum") else value < least):
            relation = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
            result.merge(self._body_error(path, value, f"should be {relation} {format_number(least)}"))
        if most is not None and (value >= most if schema.get("exclusiveMaximum") else value > most):
            relation = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
            result.merge(self._body_error(path, value, f"should be {relation} {format_number(most)}"))
        return result

    def _list(self, value: list[Any], schema: JsonSchemaProps, path: str, old: object) -> _ValidationResult:
        result = _ValidationResult(match_count=1)
        items = schema.get("items")
        if isinstance(items, dict):
            before = correlated_items(value, schema, old)
            for index, (item, was) in enumerate(zip(value, before, strict=True)):
                result.merge(self.value(item, items, f"{path}[{index}]", was))
        least, most = schema.get("minItems"), schema.get("maxItems")
        if least is not None and len(value) < least:
            result.merge(self._too_few(path, len(value), least, "items"))
        if most is not None and len(value) > most:
            result.causes.append(field_errors.too_many(self._full_path(path), len(value), most))
        return result

    def _object(self, value: JsonSchemaProps, schema: JsonSchemaProps, path: str, old: object) -> _ValidationResult:
        result = _ValidationResult()
        least, most = schema.get("minProperties"), schema.get("maxProperties")
        if least is not None and len(value) < least:
            result.merge(self._too_few(path, len(value), least, "properties"))
        if most is not None and len(value) > most:
            result.causes.append(field_errors.too_many(self._full_path(path), len(value), most))
        before = old if isinstance(old, dict) else {}
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            known = properties.get(name)
            here = child_path(path, name) if known is not None else f"{path}.{name}"
            if known is not None:
                result.merge(self.value(item, known, here, before.get(name, NO_OLD_VALUE)))
            elif isinstance(others, dict):
                result.merge(self.value(item, others, here, before.get(name, NO_OLD_VALUE)))
            elif others is False:
                result.merge(self._forbidden(path, name))
        missing = [name for name in schema.get("required") or () if name not in value]
        result.causes += [field_errors.required(self._full_path(f"{path}.{name}")) for name in missing]
        return result

    def _forbidden(self, path: str, name: str) -> _ValidationResult:
        text = f"{path}.{name} in body is a forbidden property"
        return _ValidationResult([field_errors.invalid(self._full_path(path), name, text)])

    def _alternatives(self, value: object, schema: JsonSchemaProps, path: str) -> _ValidationResult:
        result = _ValidationResult(match_count=1)
        for alternative in (
            self._any(value, schema, path),
            self._one(value, schema, path),
            self._all(value, schema, path),
        ):
            result.merge(alternative)
        excluded = schema.get("not")
        if excluded is not None and not self.value(value, excluded, path).causes:
            result.causes.append(_composite_error(path, "must not validate the schema (not)"))
        return result

    def _any(self, value: object, schema: JsonSchemaProps, path: str) -> _ValidationResult:
        tried = list(self._each(value, schema, "anyOf", path))
        good = next((attempt for attempt in tried if not attempt.causes), None)
        if good is not None or not tried:
            return good or _ValidationResult()
        result = _ValidationResult([_composite_error(path, "must validate at least one schema (anyOf)")])
        result.merge(max(tried, key=lambda attempt: attempt.match_count))
        return result

    def _one(self, value: object, schema: JsonSchemaProps, path: str) -> _ValidationResult:
        tried = list(self._each(value, schema, "oneOf", path))
        good = [attempt for attempt in tried if not attempt.causes]
        if len(good) == 1 or not tried:
            return good[0] if good else _ValidationResult()
        outcome = f"Found {len(good)} valid alternatives" if good else "Found none valid"
        result = _ValidationResult(
            [_composite_error(path, f"must validate one and only one schema (oneOf). {outcome}")]
        )
        if not good:
            result.merge(max(tried, key=lambda attempt: attempt.match_count))
        return result

    def _all(self, value: object, schema: JsonSchemaProps, path: str) -> _ValidationResult:
        result, tried = _ValidationResult(), list(self._each(value, schema, "allOf", path))
        for attempt in tried:
            result.merge(attempt)
        if any(attempt.causes for attempt in tried):
            none = "" if any(not attempt.causes for attempt in tried) else ". None validated"
            result.causes.append(_composite_error(path, f"must validate all the schemas (allOf){none}"))
        return result

    def _each(self, value: object, schema: JsonSchemaProps, name: str, path: str) -> Iterator[_ValidationResult]:
        return (self.value(value, alternative, path) for alternative in schema.get(name) or ())


def correlated_items(value: list[Any], schema: JsonSchemaProps, old: object) -> list[object]:
    """Return the old value of each list entry; only entries of lists of type map can be correlated."""
    if not isinstance(old, list) or schema.get(LIST_TYPE) != "map":
        return [NO_OLD_VALUE] * len(value)
    before = {repr(sorted(map_key(item, schema).items())): item for item in old}
    return [before.get(repr(sorted(map_key(item, schema).items())), NO_OLD_VALUE) for item in value]


_RANGES: Final = {"int32": 2**31, "int64": 2**63}


def _composite_error(path: str, what: str) -> FieldError:
    return field_errors.invalid("", "", f"{format_value(path)} {what}")


def _allowed_types(schema: JsonSchemaProps) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def _json_type(value: object) -> str:
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


def _json_equals(value: object, allowed: object) -> bool:
    return value == allowed and isinstance(value, bool) == isinstance(allowed, bool)


def _integer_range(value: float, schema: JsonSchemaProps) -> str:
    """Return the integer format that a value violates, empty if none."""
    if schema.get("type") != "integer":
        return ""
    form = schema.get("format")
    if form in _RANGES:
        return "" if value == int(value) and -_RANGES[form] <= value < _RANGES[form] else f"with format {form}"
    return "" if value == int(value) else "(default format)"


def _comparable_limit(limit: float | None, value: float) -> float | None:
    """Return a limit as upstream compares it with a value: as an integer if the value is one."""
    return int(limit) if limit is not None and isinstance(value, int) else limit


def _divides(factor: float, value: float) -> bool:
    ratio = value / factor
    return ratio == int(ratio)
