"""The limit on the nesting of data for which expressions are evaluated.

The evaluator converts data recursively, in C++, and a recursion that is too deep ends the process: on the 8 MiB stack
of a thread, 6,500 levels do. Any object with free-form fields may be nested 10,000 levels deep.
"""

from typing import Final

NESTING_MAX: Final = 256
"""Maximum levels of maps and lists. The deepest objects that users write, schemas of CRDs, have about forty."""


def is_nested_too_deep(value: object) -> bool:
    """Report whether plain data are nested deeper than `NESTING_MAX`; each map and list is visited once."""
    level = [value]
    for _ in range(NESTING_MAX + 1):
        below: list[object] = []
        for each in level:
            if type(each) is dict:
                below += [child for child in each.values() if type(child) in _NESTS]
            elif type(each) is list:
                below += [child for child in each if type(child) in _NESTS]
        if not below:
            return False
        level = below
    return True


_NESTS: Final = frozenset({dict, list})
