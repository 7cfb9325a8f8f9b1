"""Command groups whose commands are imported when they are used.

Each part of the system has libraries of its own, and half a second of imports is long for whoever only asks for help.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import ClassVar, TypeAlias

import click

Places: TypeAlias = Mapping[str, tuple[str, str]]
"""Name → where the command is (``module:attribute``), and its first sentence, for the list of all."""


class _Commands(MutableMapping[str, click.Command]):
    """The commands, each imported when it is looked up."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._found: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._found:
            module, _, attribute = self._places[name].partition(":")
            self._found[name] = getattr(import_module(module), attribute)
        return self._found[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._found[name] = command
        self._places.setdefault(name, "")

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._found.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Lazily(click.Group):
    """A group that lists its commands without importing them; subclasses say which they are."""

    places: ClassVar[Places] = {}

    def __init__(self, name: str | None = None, **settings: object) -> None:
        settings["commands"] = _Commands({each: place for each, (place, _) in self.places.items()})
        super().__init__(name, **settings)  # type: ignore[arg-type] # click's own, passed through

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, told) in sorted(self.places.items())])
