"""Boolean rules over an object, written in CEL: ``object.status.phase == 'Done'``.

Release rules are such rules. The evaluator is Google's (cel-cpp, through cel-expr-python). Errors of an expression and
errors of the data are separate: a rule that cannot be compiled is rejected when the configuration is read; a rule that
fails on an object (a field that is not set yet) is false. If the evaluator has no result at all for an object (nested
too deep, too many items), `RuleError` says so: it is unknown whether the rule holds.
"""

from collections.abc import Mapping
from typing import Any, Final

from cel_expr_python import cel

from dra.cel.expressions import EvaluationError, evaluate_raw

_ENVIRONMENT: Final = cel.NewEnv(variables={"object": cel.Type.DYN})


class MalformedRuleError(ValueError):
    """An expression that is not valid CEL, or whose result is not a boolean."""


class RuleError(Exception):
    """An object for which the rule cannot be evaluated; the text names the cause but not the object."""


class CompiledRule:
    """A compiled rule over objects. Raises MalformedRuleError on construction."""

    __slots__ = ("_compiled", "expression")

    def __init__(self, expression: str) -> None:
        self.expression = expression
        try:
            self._compiled = _ENVIRONMENT.compile(expression)
        except RuntimeError as error:
            raise MalformedRuleError(f"{expression!r} is not a valid CEL expression: {error}") from error
        answer = self._compiled.return_type()
        if answer not in (cel.Type.BOOL, cel.Type.DYN):  # a tuple: these types cannot be hashed
            raise MalformedRuleError(f"{expression!r} evaluates to {answer}, not to a bool")

    def __repr__(self) -> str:
        return f"CompiledRule({self.expression!r})"

    def holds(self, content: Mapping[str, Any]) -> bool:
        """Report whether the rule is true for an object; an evaluation error (a missing field) counts as false.

        Raises RuleError where the evaluator has no result.
        """
        try:
            answer = evaluate_raw(self._compiled, {"object": content})
        except EvaluationError as error:
            raise RuleError(str(error)) from error
        return bool(answer.type() == cel.Type.BOOL and answer.value())
