"""CEL expressions over named values, with all functions that Kubernetes provides.

An expression is compiled once, with the types of its variables; `MalformedExpressionError` has the text of the
compiler. An evaluation returns a value or raises `EvaluationError` with the text of cel-go, which API servers use and
clients know.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NoReturn

from dra.cel.evaluator import cel

NESTING_MAX: Final = 256
"""Maximum number of nested maps and lists in an object. The deepest objects that users write, schemas of CRDs, have
about forty.

The evaluator converts data recursively, in C++, and a recursion that is too deep ends the process: on the 8 MiB stack
of a thread, 6,500 levels do. Any object with free-form fields may be nested 10,000 levels deep.
"""


class MalformedExpressionError(ValueError):
    """A text that is not a valid expression, or an expression of the wrong type."""


class EvaluationError(Exception):
    """An expression that has no value for the given data."""


def environment(variables: Mapping[str, Any]) -> Any:  # noqa: ANN401 - cel.Env
    """Return the environment in which expressions over variables of the given types are compiled."""
    from dra.cel import library  # noqa: PLC0415 - see `dra.cel.evaluator`

    return cel().NewEnv(library.DESCRIPTOR_POOL, variables=dict(variables), extensions=list(_extensions()))


@cache
def _extensions() -> tuple[Any, ...]:
    from cel_expr_python.ext import (  # noqa: PLC0415 - only an expression needs them, see `dra.cel.evaluator`
        ext_bindings,
        ext_encoders,
        ext_math,
        ext_optional,
        ext_strings,
    )

    from dra.cel import library  # noqa: PLC0415 - as above

    return (
        ext_bindings.ExtBindings(),
        ext_encoders.ExtEncoders(),
        ext_math.ExtMath(),
        ext_optional.ExtOptional(),
        ext_strings.ExtStrings(),
        library.FUNCTIONS,
    )


class Expression:
    """A compiled CEL expression. Raises MalformedExpressionError on construction."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str, within: Any) -> None:  # noqa: ANN401 - cel.Env
        self.text = text
        try:
            self._compiled = within.compile(text)
        except RuntimeError as error:
            raise MalformedExpressionError(_compiler_error_as_cel_go(_CODE.sub("", str(error)))) from error

    @property
    def type(self) -> Any:  # noqa: ANN401 - cel.Type
        """The type of the expression's values."""
        return self._compiled.return_type()

    def evaluate(self, data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever it means
        """Return the expression's value as plain Python. Raises EvaluationError."""
        return self.evaluate_flat(data) if not is_nested_too_deep(data) else _raise_too_deep()

    def evaluate_flat(self, data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever it means
        """Return the expression's value for data that are known not to be nested deep. Raises EvaluationError."""
        answer = _result(lambda: self._compiled.eval(data=data))
        if answer.type() == cel().Type.ERROR:
            raise EvaluationError(_as_cel_go(_STATUS.sub("", str(answer.value()))))
        return answer.plain_value()


def activation(within: Any, data: Mapping[str, Any]) -> Any:  # noqa: ANN401 - cel.Env, cel.Activation
    """Return data for several expressions of one environment: the evaluator converts an object once.

    Raises EvaluationError if the data are nested too deep.
    """
    if is_nested_too_deep(data):
        _raise_too_deep()
    return within.Activation(data)


def evaluate_raw(compiled: Any, data: Any) -> Any:  # noqa: ANN401 - cel.Expression, cel.Activation, cel.Value
    """Return the evaluator's result, which may be an error of the expression. Raises EvaluationError without result."""
    return _result(lambda: compiled.eval(data))


def _raise_too_deep() -> NoReturn:
    raise EvaluationError(f"the object is nested more than {NESTING_MAX} levels deep")


def _result(evaluate: Callable[[], Any]) -> Any:  # noqa: ANN401 - cel.Value
    try:
        return evaluate()
    except RuntimeError as error:
        if "Iteration budget exceeded" in str(error):
            raise EvaluationError("the expression takes more than 10,000 iterations for the object") from error
        raise EvaluationError(_CODE.sub("", str(error))) from error


def _compiler_error_as_cel_go(text: str) -> str:
    """Return an error of the compiler in cel-go's words, which point at the undeclared name."""
    text = text.replace("null_type", "null")
    return _UNDECLARED.sub(_undeclared_reference, _MEMBER.sub(r"\1", text))


def _undeclared_reference(message: re.Match[str]) -> str:
    column = int(message["column"]) - len(message["name"])
    head = f"ERROR: <input>:{message['line']}:{column}: undeclared reference to '{message['name']}'"
    return f"{head}{message['between']}{'.' * (column - 1)}^"


_MEMBER: Final = re.compile(r"(undefined field '[^']*') not found in struct '[^']*'")
_UNDECLARED: Final = re.compile(
    r"ERROR: <input>:(?P<line>\d+):(?P<column>\d+): undeclared reference to '(?P<name>[^'.]+)\.[^']*'"
    r"(?P<between>[^\n]*\n[^\n]*\n \| )\.*\^"
)
_CODE: Final = re.compile(r"^(INVALID_ARGUMENT|INTERNAL): | \[(INVALID_ARGUMENT|INTERNAL)\]$")
_STATUS: Final = re.compile(r"^[A-Z_]+: ")
_WORDS: Final = (
    (re.compile(r'Key not found in map : "(.*)"', re.DOTALL), r"no such key: \1"),
    (re.compile(r"Key not found in map : (.*)", re.DOTALL), r"no such key: \1"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"No matching overloads found : .*", re.DOTALL), "no such overload"),
    (re.compile("divide by zero"), "division by zero"),
    (re.compile("modulus by zero"), "modulus by zero"),
)


def _as_cel_go(text: str) -> str:
    """Return an error in cel-go's words where cel-cpp uses others."""
    for pattern, words in _WORDS:
        if pattern.fullmatch(text):
            return pattern.sub(words, text)
    return text


def is_nested_too_deep(value: object) -> bool:
    """Report whether plain data are nested deeper than `NESTING_MAX`; each map and list is visited once."""
    level = [value]
    for _ in range(NESTING_MAX + 1):
        below: list[object] = []
        for nested in level:
            if type(nested) is dict:
                below += [child for child in nested.values() if type(child) in (dict, list)]
            elif type(nested) is list:
                below += [child for child in nested if type(child) in (dict, list)]
        if not below:
            return False
        level = below
    return True
