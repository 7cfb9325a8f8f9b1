"""Formats JSON values as Go does, for the messages of errors."""

from typing import Any


def format_as_go(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return a value as Go's %v prints it: ``map[a:1 b:[x y]]``."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{format_as_go(each)}' for name, each in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(format_as_go(each) for each in value)}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)
