"""``dra-reserve``: runs the parts of the system."""

import click

from dra.cli.controller import controller
from dra.cli.demo.commands import demo
from dra.cli.local.commands import local


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dra-reserve")
def main() -> None:
    """Reserve Kubernetes devices for workloads instead of single pods, on unmodified clusters."""


main.add_command(controller)
main.add_command(local)
main.add_command(demo)

if __name__ == "__main__":
    main(prog_name="dra-reserve")
