"""Yes-or-no questions about an object, written in CEL: ``object.status.phase == 'Done'``.

Release rules are such questions. The evaluator is Google's (cel-cpp, through cel-expr-python); errors of an expression
are told apart from errors of the data: a rule that cannot be compiled is refused when the configuration is read, one
that fails on an object (a field that is not there yet) simply does not hold. An object for which the evaluator gives no
answer at all (nested too deep, too many items) is told as such: nobody can tell whether the rule holds.
"""

from collections.abc import Mapping
from typing import Any, Final

from cel_expr_python import cel

from dra.cel.expressions import EvaluationError, evaluate_raw

_ENVIRONMENT: Final = cel.NewEnv(variables={"object": cel.Type.DYN})


class MalformedRuleError(ValueError):
    """An expression that is no CEL, or whose answer is no yes or no."""


class RuleError(Exception):
    """An object for which nobody can tell whether the rule holds; the text names the cause and no object."""


class CompiledRule:
    """A compiled question."""

    __slots__ = ("_compiled", "expression")

    def __init__(self, expression: str) -> None:
        self.expression = expression
        try:
            self._compiled = _ENVIRONMENT.compile(expression)
        except RuntimeError as error:
            raise MalformedRuleError(f"{expression!r} is no CEL expression: {error}") from error
        answer = self._compiled.return_type()
        if answer not in (cel.Type.BOOL, cel.Type.DYN):  # a tuple: these types cannot be hashed
            raise MalformedRuleError(f"{expression!r} answers with {answer}, not with true or false")

    def __repr__(self) -> str:
        return f"Rule({self.expression!r})"

    def holds(self, content: Mapping[str, Any]) -> bool:
        """Whether the answer for an object is yes; an evaluation error (a missing field) is a no.

        Raises RuleError where the evaluator gives up.
        """
        try:
            answer = evaluate_raw(self._compiled, {"object": content})
        except EvaluationError as error:
            raise RuleError(str(error)) from error
        return bool(answer.type() == cel.Type.BOOL and answer.value())
