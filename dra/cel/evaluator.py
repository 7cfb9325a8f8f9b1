"""Loads the CEL evaluator when the first expression needs it.

The evaluator takes 19 MiB, a third of an idle controller, and many processes never have an expression to evaluate.
"""

from functools import cache
from typing import Any


@cache
def cel() -> Any:  # noqa: ANN401 - a module
    """Return the module of the evaluator."""
    from cel_expr_python import cel as module  # noqa: PLC0415 - see the head of the module

    return module
