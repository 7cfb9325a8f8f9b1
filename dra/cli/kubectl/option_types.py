"""Option types that commands share: durations, and ``--dry-run`` with or without a value."""

import re
from collections.abc import Mapping
from typing import Final

import click

_UNITS: Final[Mapping[str, float]] = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class DurationParam(click.ParamType):  # type: ignore[type-arg] # not generic in click 8.3
    """A duration such as ``90``, ``30s``, ``5m`` or ``1h``, as kubectl accepts it."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the duration in seconds."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(value))
        if found is None:
            self.fail(f"{value!r} is not a valid duration; use a form like 30s or 5m", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


class DryRunCommand(click.Command):
    """A command that accepts ``--dry-run`` without a value; the next word is then not its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with ``--dry-run`` as ``--dry-run=client``."""
        return super().parse_args(ctx, ["--dry-run=client" if each == "--dry-run" else each for each in args])
