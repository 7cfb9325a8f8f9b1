"""docs/reference/commands.md: the help of every command, as the command prints it."""

from collections.abc import Iterator
from typing import Final

import click

from dra.cli.kubectl.main import main as plugin
from dra.cli.main import main
from dra.cli.reference import markdown

WIDTH: Final = 100


_INTRODUCTION: Final = (
    "`dra-reserve` runs the parts of the system, `kubectl dra` asks about a cluster or changes it\n"
    "([how to use it](../how-to/kubectl-dra.md)).\n"
)


def command_helps(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """Yield a command and all commands below it, each with its help; groups come before their commands."""
    context = click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],  # click caches the first value that it sees
    )
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for subcommand in command.list_commands(context):
            below = command.get_command(context, subcommand)
            if below is not None:
                yield from command_helps(below, subcommand, context)


def page() -> str:
    """Return docs/reference/commands.md as Markdown."""
    parts = [_INTRODUCTION]
    for program, name in ((main, "dra-reserve"), (plugin, "kubectl dra")):
        for path, text in command_helps(program, name):
            parts.append(f"{'##' if path == name else '###'} {path}\n")
            parts.append(f"```text\n{text.rstrip()}\n```\n")
    return markdown.page("Commands", *parts)
