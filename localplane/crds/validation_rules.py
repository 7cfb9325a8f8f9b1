"""Evaluates ``x-kubernetes-validations``: CEL rules over a value (``self``) and its old value (``oldSelf``).

Rules are compiled once, into a tree that has only branches with rules. A rule that reads ``oldSelf`` is a transition
rule and is skipped for a new value, unless ``optionalOldSelf`` is set. An unchanged value is checked against transition
rules only, so that a rule added later does not block updates of the object (upstream: ratcheting).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from dra.cel.expressions import EvaluationError, Expression, MalformedExpressionError, environment
from localplane.crds import cel_values
from localplane.crds.pruning import JsonSchemaProps
from localplane.crds.schema_errors import child_path, invalid_without_value
from localplane.crds.schema_validation import NO_OLD_VALUE, correlated_items
from localplane.kinds import field_errors
from localplane.status_errors import FieldError, FieldErrorType

VALIDATIONS: Final = "x-kubernetes-validations"

RULES_NOT_CHECKED: Final = FieldError(
    FieldErrorType.INVALID,
    "",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
"""The error added when rules were not evaluated because their values have the wrong shape."""

BLOCKING_ERROR_TYPES: Final = frozenset(
    {
        FieldErrorType.REQUIRED,
        FieldErrorType.TOO_LONG,
        FieldErrorType.TOO_MANY,
        FieldErrorType.TYPE,
        FieldErrorType.UNSUPPORTED,
    }
)


@dataclass(frozen=True, slots=True)
class CompiledValidationRule:
    """One compiled rule of ``x-kubernetes-validations``."""

    spec: JsonSchemaProps
    expression: Expression
    message: Expression | None
    is_transition_rule: bool
    """Whether the rule reads ``oldSelf``."""


@dataclass(slots=True)
class RuleTree:
    """The compiled rules of a schema, and of its nested schemas."""

    schema: JsonSchemaProps
    rules: list[CompiledValidationRule] = field(default_factory=list)
    properties: dict[str, "RuleTree"] = field(default_factory=dict)
    additional_properties: "RuleTree | None" = None
    items: "RuleTree | None" = None
    root: bool = False

    def __bool__(self) -> bool:
        return bool(self.rules or self.properties or self.additional_properties or self.items)


class RuleCompilationError(Exception):
    """The error of a rule that does not compile: the part of the rule, and the reason."""

    def __init__(self, part: str, detail: str) -> None:
        super().__init__(detail)
        self.part = part
        self.detail = detail


def compile_rules(schema: JsonSchemaProps, *, root: bool = True) -> RuleTree:
    """Compile all rules of a validated schema; skip rules that do not compile."""
    branch = RuleTree(schema, root=root)
    for spec in schema.get(VALIDATIONS) or ():
        try:
            branch.rules.append(compile_rule(spec, schema))
        except RuleCompilationError:
            continue
    children = {
        name: compile_rules(property_schema, root=False)
        for name, property_schema in (schema.get("properties") or {}).items()
    }
    branch.properties = {name: child for name, child in children.items() if child}
    if isinstance(additional_properties := schema.get("additionalProperties"), dict):
        branch.additional_properties = compile_rules(additional_properties, root=False) or None
    if isinstance(items := schema.get("items"), dict):
        branch.items = compile_rules(items, root=False) or None
    return branch


def compile_rule(spec: JsonSchemaProps, schema: JsonSchemaProps) -> CompiledValidationRule:
    """Compile one rule for the values of a schema; raises `RuleCompilationError`."""
    kind = cel_values.cel_type(schema)
    optional = bool(spec.get("optionalOldSelf"))
    compiled = _compile(spec["rule"], spec.get("messageExpression") or "", _Self(str(kind), kind), optional=optional)
    return CompiledValidationRule(spec, *compiled)


COMPILED_RULES_KEPT: Final = 512
"""Maximum number of compiled rules to keep: the check of a definition and its kind compile the same rules."""


@dataclass(frozen=True, slots=True)
class _Self:
    """The type of ``self``, which has no hash: equal types have equal names."""

    name: str
    type: Any = field(compare=False)


@lru_cache(maxsize=COMPILED_RULES_KEPT)
def _compile(
    rule: str, message_text: str, self: _Self, *, optional: bool
) -> tuple[Expression, Expression | None, bool]:
    """Return the compiled rule, its compiled message, and whether it is a transition rule."""
    kind = self.type
    within = environment(
        {"self": kind, _OLD_SELF_LIST: cel_values.cel_list_type(kind)} if optional else {"self": kind, "oldSelf": kind}
    )
    try:
        expression = Expression(_bind_old_self(rule, optional=optional), within)
    except MalformedExpressionError as error:
        raise RuleCompilationError("rule", f"compilation failed: {error}") from error
    if expression.type not in (cel_values.BOOL, cel_values.DYN):
        raise RuleCompilationError("rule", "cel expression must evaluate to a bool")
    message = None
    if message_text:
        try:
            message = Expression(_bind_old_self(message_text, optional=optional), within)
        except MalformedExpressionError as error:
            raise RuleCompilationError("messageExpression", f"messageExpression compilation failed: {error}") from error
        if message.type not in (cel_values.STRING, cel_values.DYN):
            raise RuleCompilationError("messageExpression", "messageExpression must evaluate to a string")
    try:
        Expression(rule, environment({"self": kind}))
    except MalformedExpressionError:
        return expression, message, True
    return expression, message, False


_OLD_SELF_LIST: Final = "before"
"""Variable that stands for ``oldSelf`` in ``optionalOldSelf`` rules: a list of at most one value.

CEL's Python binding cannot pass in optionals.
"""


def _bind_old_self(text: str, *, optional: bool) -> str:
    if not optional:
        return text
    return (
        f"cel.bind(oldSelf, {_OLD_SELF_LIST}.size() == 0 ? optional.none() : optional.of({_OLD_SELF_LIST}[0]), {text})"
    )


def check_rules(
    value: object, branch: RuleTree | None, *, path: str = "", old: object = NO_OLD_VALUE
) -> Iterator[FieldError]:
    """Yield an error for each rule that a value violates."""
    if branch is None or value is None:
        return
    if branch.rules:
        yield from _check_rules_here(value, branch, path, old)
    if isinstance(value, dict):
        before: Mapping[str, Any] = old if isinstance(old, dict) else {}
        for name, item in value.items():
            if (known := branch.properties.get(name)) is not None:
                yield from check_rules(item, known, path=child_path(path, name), old=before.get(name, NO_OLD_VALUE))
            elif branch.additional_properties is not None and name not in (branch.schema.get("properties") or {}):
                yield from check_rules(
                    item, branch.additional_properties, path=f"{path}[{name}]", old=before.get(name, NO_OLD_VALUE)
                )
    elif isinstance(value, list) and branch.items is not None:
        for index, (item, was) in enumerate(zip(value, correlated_items(value, branch.schema, old), strict=True)):
            yield from check_rules(item, branch.items, path=f"{path}[{index}]", old=was)


def _check_rules_here(value: object, branch: RuleTree, path: str, old: object) -> Iterator[FieldError]:
    """Yield an error for each violated rule of one schema."""
    schema = branch.schema
    fresh = old is NO_OLD_VALUE or old is None
    now = cel_values.to_cel_value(value, schema, root=branch.root)
    before = None if fresh else cel_values.to_cel_value(old, schema, root=branch.root)
    unchanged = not fresh and value == old
    for rule in branch.rules:
        optional = bool(rule.spec.get("optionalOldSelf"))
        if rule.is_transition_rule and fresh and not optional:
            continue
        if unchanged and not rule.is_transition_rule:
            continue
        data = {"self": now}
        if rule.is_transition_rule or rule.message is not None:
            data |= {_OLD_SELF_LIST: [] if fresh else [before]} if optional else {"oldSelf": before}
        text = (rule.spec.get("message") or rule.spec["rule"]).strip()
        try:
            if rule.expression.evaluate(data) is True:
                continue
        except EvaluationError as failure:
            yield field_errors.invalid(path, schema.get("type") or "", _evaluation_error(str(failure), text))
            continue
        yield _rule_error(rule, value, schema, path=path, detail=_rule_message(rule, data))


def _evaluation_error(failure: str, rule: str) -> str:
    if failure.startswith("no such overload"):
        what = "call arguments did not match a supported operator, function or macro signature"
        return f"'{failure}': {what} for rule: {rule}"
    return f"{failure} evaluating rule: {rule}"


def _rule_message(rule: CompiledValidationRule, data: Mapping[str, Any]) -> str:
    if rule.message is not None:
        try:
            text = rule.message.evaluate(data)
        except EvaluationError:
            text = ""
        if isinstance(text, str) and text.strip() and "\n" not in text.strip():
            return text.strip()
    return (rule.spec.get("message") or "").strip() or f"failed rule: {rule.spec['rule'].strip()}"


def _rule_error(
    rule: CompiledValidationRule, value: object, schema: JsonSchemaProps, *, path: str, detail: str
) -> FieldError:
    if where := rule.spec.get("fieldPath"):
        path = f"{path}{where}" if path or where.startswith("[") else where.removeprefix(".")
    whole = schema.get("type") in ("object", "array")
    match rule.spec.get("reason"):
        case FieldErrorType.REQUIRED.value:
            return field_errors.required(path, detail)
        case FieldErrorType.FORBIDDEN.value:
            return field_errors.forbidden(path, detail)
        case FieldErrorType.DUPLICATE.value:
            return (
                FieldError(FieldErrorType.DUPLICATE, path, "Duplicate value")
                if whole
                else field_errors.duplicate(path, value)
            )
        case _:
            return invalid_without_value(path, detail) if whole else field_errors.invalid(path, value, detail)
