"""Boolean rules over an object, written in CEL: ``object.status.phase == 'Done'``.

Release rules are such rules. The evaluator is Google's (cel-cpp, through cel-expr-python). Errors of an expression and
errors of the data are separate: a rule that cannot be compiled is rejected when the configuration is read; a rule that
fails on an object (a field that is not set yet) is false. If the evaluator has no result at all for an object (nested
too deep, too many items), `RuleError` says so: it is unknown whether the rule holds.
"""

from collections.abc import Container, Mapping
from functools import cache
from typing import Any, NamedTuple

from dra.cel.evaluator import cel
from dra.cel.expressions import EvaluationError, activation, evaluate_raw
from dra.model.references import GroupResource, MalformedReferenceError


@cache
def _environment() -> Any:  # noqa: ANN401 - cel.Env
    return cel().NewEnv(variables={"object": cel().Type.DYN})


class MalformedRuleError(ValueError):
    """An expression that is not valid CEL, or whose result is not a boolean."""


class RuleError(Exception):
    """An object for which the rule cannot be evaluated; the text names the cause but not the object."""


class CompiledRule:
    """A rule over objects. Raises MalformedRuleError on construction, unless the rule is known to be valid.

    A valid rule is compiled when it is first evaluated: an idle process need not load the evaluator.
    """

    __slots__ = ("_compiled", "expression")

    def __init__(self, expression: str, *, is_valid: bool = False) -> None:
        self.expression = expression
        self._compiled: Any = None if is_valid else _compile(expression)

    def __repr__(self) -> str:
        return f"CompiledRule({self.expression!r})"

    def holds(self, content: Mapping[str, Any]) -> bool:
        """Report whether the rule is true for an object; an evaluation error (a missing field) counts as false.

        Raises RuleError where the evaluator has no result.
        """
        return self.holds_for(_activation(content))

    def holds_for(self, data: Any) -> bool:  # noqa: ANN401 - cel.Activation
        """Report whether the rule is true for an object that `activation` has converted. Raises RuleError likewise."""
        if self._compiled is None:
            self._compiled = _compile(self.expression)
        try:
            answer = evaluate_raw(self._compiled, data)
        except EvaluationError as error:
            raise RuleError(str(error)) from error
        return bool(answer.type() == cel().Type.BOOL and answer.value())


def _compile(expression: str) -> Any:  # noqa: ANN401 - cel.Expression
    try:
        compiled = _environment().compile(expression)
    except RuntimeError as error:
        raise MalformedRuleError(f"{expression!r} is not a valid CEL expression: {error}") from error
    answer = compiled.return_type()
    if answer not in (cel().Type.BOOL, cel().Type.DYN):  # a tuple: these types cannot be hashed
        raise MalformedRuleError(f"{expression!r} evaluates to {answer}, not to a bool")
    return compiled


def _activation(content: Mapping[str, Any]) -> Any:  # noqa: ANN401 - cel.Activation
    try:
        return activation(_environment(), {"object": content})
    except EvaluationError as error:
        raise RuleError(str(error)) from error


class WorkloadLifecycle(NamedTuple):
    """The results of a kind's rules for one object."""

    finished: bool = False
    """Whether the workload will create no further pods."""

    suspended: bool = False
    """Whether the workload has not finished, and has no pods until its controller resumes the workload."""


class WorkloadRules(NamedTuple):
    """The compiled rules of one kind of workload; None where the kind has no such rule."""

    finished: CompiledRule | None = None
    suspended: CompiledRule | None = None

    def evaluate(self, content: Mapping[str, Any]) -> WorkloadLifecycle:
        """Evaluate both rules for an object, which is converted once: a megabyte takes a second.

        Raises RuleError where the evaluator has no result for the release rule; without a result of the other rule,
        the workload counts as not suspended.
        """
        data = _activation(content)
        if self.finished is not None and self.finished.holds_for(data):
            return WorkloadLifecycle(finished=True)
        try:
            suspended = self.suspended is not None and self.suspended.holds_for(data)
        except RuleError:
            suspended = False
        return WorkloadLifecycle(suspended=suspended)


def compile_workload_rules(
    finished: Mapping[str, str], suspended: Mapping[str, str], *, valid: Container[str] = ()
) -> dict[GroupResource, WorkloadRules]:
    """Return the rules of each kind, from expressions by resource in kubectl's notation (``jobs.batch``).

    ``valid``: expressions that need no check. An empty expression stands for a missing rule. Raises MalformedRuleError,
    which names the resource.
    """
    rules = {}
    for resource in dict.fromkeys((*finished, *suspended)):
        try:
            rules[GroupResource.parse(resource)] = WorkloadRules(
                *(
                    CompiledRule(expressions[resource], is_valid=expressions[resource] in valid)
                    if expressions.get(resource)
                    else None
                    for expressions in (finished, suspended)
                )
            )
        except (MalformedReferenceError, MalformedRuleError) as error:
            raise MalformedRuleError(f"{resource}: {error}") from error
    return rules
