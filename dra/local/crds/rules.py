"""``x-kubernetes-validations``: rules in CEL, over the value they stand at (``self``) and what it was (``oldSelf``).

Rules are compiled once, into a tree that has only the branches on which there are any. A rule that reads ``oldSelf``
is a rule about changes: it holds for a value that is new. A value that is no other than before is not held to rules
that were added since (upstream: ratcheting).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dra.cel.expressions import Expression, Failed, Malformed, environment
from dra.local.crds import typed
from dra.local.crds.causes import child, unshown
from dra.local.crds.pruning import Node
from dra.local.crds.values import ABSENT, predecessors
from dra.local.kinds import causes
from dra.local.refusals import Cause, Fault

RULES: Final = "x-kubernetes-validations"

BLOCKED: Final = Cause(
    Fault.INVALID,
    "",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
"""Said when rules could not be tried, since what they speak of has the wrong shape."""

BLOCKING: Final = frozenset({Fault.REQUIRED, Fault.TOO_LONG, Fault.TOO_MANY, Fault.TYPE, Fault.UNSUPPORTED})


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule."""

    spec: Node
    expression: Expression
    message: Expression | None
    of_change: bool
    """Whether it reads ``oldSelf``."""


@dataclass(slots=True)
class Branch:
    """The rules at a place of a schema, and those below."""

    schema: Node
    rules: list[Rule] = field(default_factory=list)
    fields: dict[str, "Branch"] = field(default_factory=dict)
    others: "Branch | None" = None
    items: "Branch | None" = None
    root: bool = False

    def __bool__(self) -> bool:
        return bool(self.rules or self.fields or self.others or self.items)


class Wrong(Exception):  # noqa: N818 - it becomes a cause
    """A rule that cannot be compiled: where in it, and why."""

    def __init__(self, part: str, detail: str) -> None:
        super().__init__(detail)
        self.part = part
        self.detail = detail


def plant(schema: Node, *, root: bool = True) -> Branch:
    """Compile all rules of a schema that has been validated; those that cannot be compiled are left out."""
    branch = Branch(schema, root=root)
    for spec in schema.get(RULES) or ():
        try:
            branch.rules.append(compiled(spec, schema))
        except Wrong:
            continue
    below = {name: plant(each, root=False) for name, each in (schema.get("properties") or {}).items()}
    branch.fields = {name: each for name, each in below.items() if each}
    if isinstance(others := schema.get("additionalProperties"), dict):
        branch.others = plant(others, root=False) or None
    if isinstance(items := schema.get("items"), dict):
        branch.items = plant(items, root=False) or None
    return branch


def compiled(spec: Node, schema: Node) -> Rule:
    """Compile one rule for the values of a schema; raises `Wrong`."""
    kind = typed.declared(schema)
    optional = bool(spec.get("optionalOldSelf"))
    within = environment({"self": kind, _BEFORE: typed.list_of(kind)} if optional else {"self": kind, "oldSelf": kind})
    try:
        expression = Expression(_bound(spec["rule"], optional=optional), within)
    except Malformed as error:
        raise Wrong("rule", f"compilation failed: {error}") from error
    if expression.type not in (typed.BOOL, typed.DYN):
        raise Wrong("rule", "cel expression must evaluate to a bool")
    message = None
    if text := spec.get("messageExpression"):
        try:
            message = Expression(_bound(text, optional=optional), within)
        except Malformed as error:
            raise Wrong("messageExpression", f"messageExpression compilation failed: {error}") from error
        if message.type not in (typed.STRING, typed.DYN):
            raise Wrong("messageExpression", "messageExpression must evaluate to a string")
    try:
        Expression(spec["rule"], environment({"self": kind}))
    except Malformed:
        return Rule(spec, expression, message, of_change=True)
    return Rule(spec, expression, message, of_change=False)


_BEFORE: Final = "before"
"""The variable that ``optionalOldSelf`` rules really have: a list of at most one; optionals cannot be passed in."""


def _bound(text: str, *, optional: bool) -> str:
    if not optional:
        return text
    return f"cel.bind(oldSelf, {_BEFORE}.size() == 0 ? optional.none() : optional.of({_BEFORE}[0]), {text})"


def check(value: object, branch: Branch | None, *, path: str = "", old: object = ABSENT) -> Iterator[Cause]:
    """Yield the rules that do not hold."""
    if branch is None or value is None:
        return
    if branch.rules:
        yield from _at(value, branch, path, old)
    if isinstance(value, dict):
        before: Mapping[str, Any] = old if isinstance(old, dict) else {}
        for name, item in value.items():
            if (known := branch.fields.get(name)) is not None:
                yield from check(item, known, path=child(path, name), old=before.get(name, ABSENT))
            elif branch.others is not None and name not in (branch.schema.get("properties") or {}):
                yield from check(item, branch.others, path=f"{path}[{name}]", old=before.get(name, ABSENT))
    elif isinstance(value, list) and branch.items is not None:
        for index, (item, was) in enumerate(zip(value, predecessors(value, branch.schema, old), strict=True)):
            yield from check(item, branch.items, path=f"{path}[{index}]", old=was)


def _at(value: object, branch: Branch, path: str, old: object) -> Iterator[Cause]:
    """Yield the rules at one place that do not hold."""
    schema = branch.schema
    fresh = old is ABSENT or old is None
    now = typed.value(value, schema, root=branch.root)
    before = None if fresh else typed.value(old, schema, root=branch.root)
    unchanged = not fresh and value == old
    for rule in branch.rules:
        optional = bool(rule.spec.get("optionalOldSelf"))
        if rule.of_change and fresh and not optional:
            continue
        if unchanged and not rule.of_change:
            continue
        data = {"self": now}
        if rule.of_change or rule.message is not None:
            data |= {_BEFORE: [] if fresh else [before]} if optional else {"oldSelf": before}
        text = (rule.spec.get("message") or rule.spec["rule"]).strip()
        try:
            if rule.expression.evaluate(data) is True:
                continue
        except Failed as failure:
            yield causes.invalid(path, schema.get("type") or "", _failed(str(failure), text))
            continue
        yield _refused(rule, value, schema, path=path, detail=_message(rule, data))


def _failed(failure: str, rule: str) -> str:
    if failure.startswith("no such overload"):
        what = "call arguments did not match a supported operator, function or macro signature"
        return f"'{failure}': {what} for rule: {rule}"
    return f"{failure} evaluating rule: {rule}"


def _message(rule: Rule, data: Mapping[str, Any]) -> str:
    if rule.message is not None:
        try:
            text = rule.message.evaluate(data)
        except Failed:
            text = ""
        if isinstance(text, str) and text.strip() and "\n" not in text.strip():
            return text.strip()
    return (rule.spec.get("message") or "").strip() or f"failed rule: {rule.spec['rule'].strip()}"


def _refused(rule: Rule, value: object, schema: Node, *, path: str, detail: str) -> Cause:
    if where := rule.spec.get("fieldPath"):
        path = f"{path}{where}" if path or where.startswith("[") else where.removeprefix(".")
    whole = schema.get("type") in ("object", "array")
    match rule.spec.get("reason"):
        case Fault.REQUIRED.value:
            return causes.required(path, detail)
        case Fault.FORBIDDEN.value:
            return causes.forbidden(path, detail)
        case Fault.DUPLICATE.value:
            return Cause(Fault.DUPLICATE, path, "Duplicate value") if whole else causes.duplicate(path, value)
        case _:
            return unshown(path, detail) if whole else causes.invalid(path, value, detail)
