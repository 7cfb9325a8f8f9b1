"""The memory that evaluations leak: arguments and results of functions that are written in Python.

cel-expr-python 0.1.3 creates a Python object for each argument, and frees neither arguments nor results: two kilobytes
for each evaluation of a selector that compares quantities, and any amount for long texts in an expression. Freeing them
here instead ends in a segmentation fault. So a process that evaluates expressions of its users has to count the leaked
bytes, and to stop in time.
"""

import re
from collections.abc import Callable
from typing import Any, Final

MESSAGE_BYTES: Final = 640
"""Bytes leaked for a quantity, a version, an address or a URL, as measured."""

_function_names: Final[set[str]] = set()
_CALLED: Final = re.compile(r"([A-Za-z][A-Za-z.]*)\s*\(")


class _Leaked:
    bytes = 0


def leaked_bytes() -> int:
    """Return the number of bytes that this process has leaked so far."""
    return _Leaked.bytes


def may_leak(expression: str) -> bool:
    """Report whether an expression may call a function that leaks memory."""
    from dra.cel import library  # noqa: F401, PLC0415 - its functions call `count_leaks`

    return any(not _function_names.isdisjoint({name, name.rpartition(".")[2]}) for name in _CALLED.findall(expression))


def count_leaks(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `run` and counts the bytes that the call leaks."""
    from google.protobuf.message import Message  # noqa: PLC0415 - loaded with the evaluator, which needs it

    _function_names.update((name, name.rpartition(".")[2]))

    def size(value: object) -> int:
        if isinstance(value, str):
            return value.__sizeof__()
        if isinstance(value, Message):
            return MESSAGE_BYTES
        if isinstance(value, list):
            return value.__sizeof__() + sum(map(size, value))
        return 0 if isinstance(value, bool | int) else value.__sizeof__()

    def call(*arguments: object) -> object:
        _Leaked.bytes += sum(map(size, arguments))
        result = run(*arguments)
        _Leaked.bytes += size(result)
        return result

    return call
