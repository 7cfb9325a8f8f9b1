"""Command groups that import their commands on first use.

Each component has libraries of its own, and half a second of imports is long for a user who only asks for help.
"""

import gc
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import ClassVar, TypeAlias

import click
from click.shell_completion import CompletionItem

LazySubcommands: TypeAlias = Mapping[str, tuple[str, str]]
"""Command name → where the command is (``module:attribute``), and its first sentence, for the list of commands."""


class _LazyCommands(MutableMapping[str, click.Command]):
    """The mapping of names to commands, each imported when it is looked up."""

    def __init__(self, import_paths: Mapping[str, str]) -> None:
        self._import_paths = dict(import_paths)
        self._found: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._found:
            module, _, attribute = self._import_paths[name].partition(":")
            with without_gc():
                self._found[name] = getattr(import_module(module), attribute)
        return self._found[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._found[name] = command
        self._import_paths.setdefault(name, "")

    def __delitem__(self, name: str) -> None:
        del self._import_paths[name]
        self._found.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._import_paths)

    def __len__(self) -> int:
        return len(self._import_paths)


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable garbage collection: imported modules and snapshots stay, and collecting takes a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class LazyGroup(click.Group):
    """A group that lists its commands without importing them; subclasses name the commands."""

    lazy_subcommands: ClassVar[LazySubcommands] = {}

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Headings of the list, and the commands below each; without headings, one list in alphabetical order."""

    def __init__(self, name: str | None = None, **settings: object) -> None:
        settings["commands"] = _LazyCommands(
            {command: import_path for command, (import_path, _) in self.lazy_subcommands.items()}
        )
        super().__init__(name, **settings)  # type: ignore[arg-type] # click's own, passed through

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, in sections."""
        del ctx
        sections = self.sections or {"Commands": sorted(self.lazy_subcommands)}
        help_texts = {heading: self._help_texts(names) for heading, names in sections.items()}
        widest = max((len(name) for lines in help_texts.values() for name in lines), default=0)
        for heading, lines in help_texts.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), text) for name, text in lines.items()])

    def _help_texts(self, names: Sequence[str]) -> dict[str, str]:
        """Return names and descriptions; several names of one command share a line."""
        same: dict[tuple[str, str], list[str]] = {}
        for name in names:
            same.setdefault(self.lazy_subcommands[name], []).append(name)
        return {", ".join(aliases): text for (_, text), aliases in same.items()}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show help for ``help``, ``help COMMAND`` and an empty command line, as kubectl does."""
        if ctx.resilient_parsing:  # shell completion
            return super().parse_args(ctx, args)
        if not args:
            args = ["--help"]
        elif args[0] == "help":
            args = [*(argument for argument in args[1:] if not argument.startswith("-")), "--help"]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the completions of a word; commands are not imported, so that the user does not wait."""
        items = [
            CompletionItem(command, help=text)
            for command, (_, text) in self.lazy_subcommands.items()
            if command.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)
