"""Implements ``dra-reserve completion``, which prints the script that a shell reads for completion."""

from typing import Final

import click
from click.shell_completion import get_completion_class

PROGRAM_NAME: Final = "dra-reserve"
COMPLETE_VARIABLE: Final = "_DRA_RESERVE_COMPLETE"
"""Variable by which the script asks ``dra-reserve`` for candidates; click's default for this name of a program."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes these commands in a shell.

    Load the script for the current shell, or in the file that the shell reads at its start:

    \b
      bash: source <(dra-reserve completion bash)
      zsh:  source <(dra-reserve completion zsh)
      fish: dra-reserve completion fish | source

    kubectl dra needs no script of its own: kubectl completes it if kubectl_complete-dra is on your PATH.
    """  # noqa: D301 - click keeps the lines of a paragraph behind this character
    from dra.cli.main import main  # noqa: PLC0415 - it imports this module

    shell_class = get_completion_class(shell)
    assert shell_class is not None  # noqa: S101 - click has these three
    click.echo(shell_class(main, {}, PROGRAM_NAME, COMPLETE_VARIABLE).source())
