"""Implements ``kubectl_complete-dra``, which kubectl runs to complete ``kubectl dra …`` in bash, zsh and fish.

kubectl passes the words typed so far, the last of them unfinished, and reads candidates line by line, then a number
that says what else to offer: 4 is "no file names". Names come from the cluster, within two seconds at most: completion
must not hang.
"""

import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import ShellComplete

from dra.cli.kubectl.main import main as program

DIRECTIVE_NO_FILE_COMP: Final = 4
DIRECTIVE_DEFAULT: Final = 0


def completions(words: Sequence[str]) -> tuple[list[str], int]:
    """Return the candidates for the last word, each with its help behind a tab, and a directive for kubectl."""
    *typed, last = list(words) or [""]
    items = ShellComplete(program, {}, "kubectl dra", "_").get_completions(typed, last)
    if any(item.type in {"file", "dir"} for item in items):
        return [], DIRECTIVE_DEFAULT
    return [f"{item.value}\t{item.help}" if item.help else str(item.value) for item in items], DIRECTIVE_NO_FILE_COMP


def main() -> None:
    """Print the candidates and the directive for kubectl."""
    lines, directive = completions(sys.argv[1:])
    for line in lines:
        click.echo(line)
    click.echo(f":{directive}")


if __name__ == "__main__":
    main()
