"""``dra-reserve``: runs the parts of the system.

A command's module is imported when it is used: each part has libraries of its own, and half a second of imports is long
for whoever only asks for help.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Final

import click

COMMANDS: Final = {
    "controller": ("dra.cli.controller:controller", "Run the ResourceClaim controller."),
    "kubelet-plugin": ("dra.cli.kubelet_plugin:kubelet_plugin", "Run the DRA drivers of a node."),
    "local": (
        "dra.cli.local.commands:local",
        "Run a small Kubernetes on this machine: API server, scheduler, nodes and workloads in one process.",
    ),
    "demo": (
        "dra.cli.demo.commands:demo",
        "Show what this is good for, on planes of its own: a minute, no cluster, nothing left behind.",
    ),
}
"""Name → where the command is, and its first sentence, for the list of all."""


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


class _Lazily(click.Group):
    """A group that lists its commands without importing them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in sorted(COMMANDS.items())])


@click.group(
    cls=_Lazily,
    commands=_Commands({name: place for name, (place, _) in COMMANDS.items()}),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="dra-reserve")
def main() -> None:
    """Reserve Kubernetes devices for workloads instead of single pods, on unmodified clusters."""


if __name__ == "__main__":
    main(prog_name="dra-reserve")
