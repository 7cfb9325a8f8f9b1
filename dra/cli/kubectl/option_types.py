"""Option types that commands share: durations, and ``--dry-run`` with or without a value."""

import re
from typing import Final

import click

from dra.api import durations

_NUMBER: Final = re.compile(r"\d+(\.\d+)?")


class DurationParam(click.ParamType):  # type: ignore[type-arg] # not generic in click 8.3
    """A duration as kubectl accepts it, such as ``30s``, ``5m`` or ``1h30m``; a number without a unit is in seconds."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the duration in seconds."""
        text = str(value)
        try:
            duration = durations.parse_duration(f"{text}s" if _NUMBER.fullmatch(text) else text)
        except durations.MalformedDurationError:
            duration = -1
        if duration < 0:
            self.fail(f"{value!r} is not a valid duration; use a form like 30s, 5m or 1h30m", param, ctx)
        return duration / durations.SECOND


_DAYS: Final = re.compile(r"([0-9]{1,4})([dw])")
_DAY: Final = 24 * 3600.0


class HistoryParam(DurationParam):
    """The length of a history: a duration, or days and weeks such as ``7d`` and ``1w``."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the length in seconds."""
        days = _DAYS.fullmatch(str(value))
        if days is not None:
            return int(days[1]) * (_DAY if days[2] == "d" else WEEK)
        return super().convert(value, param, ctx)


WEEK: Final = 7 * 24 * 3600.0


class TimeoutParam(DurationParam):
    """The length of time that a command waits, with the meanings of kubectl: 0 checks once, less waits for a week."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the length of time in seconds."""
        text = str(value)
        if text.startswith("-"):
            super().convert(text[1:], param, ctx)
            return WEEK
        return super().convert(value, param, ctx)


class DryRunCommand(click.Command):
    """A command that accepts ``--dry-run`` without a value; the next word is then not its value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with ``--dry-run`` as ``--dry-run=client``."""
        return super().parse_args(
            ctx, ["--dry-run=client" if argument == "--dry-run" else argument for argument in args]
        )
