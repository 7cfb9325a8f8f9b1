"""Implements ``dra-reserve``, which runs the components of the system."""

from typing import Final

import click

from dra.cli.lazy_group import LazyGroup, LazySubcommands

COMMANDS: Final[LazySubcommands] = {
    "controller": ("dra.cli.controller:controller", "Run the ResourceClaim controller."),
    "kubelet-plugin": ("dra.cli.kubelet_plugin:kubelet_plugin", "Run the DRA drivers of a node."),
    "scheduler-extender": (
        "dra.cli.scheduler_extender:scheduler_extender",
        "Run the scheduler extender for Reservations, which filters nodes and binds pods.",
    ),
    "descheduler": (
        "dra.cli.descheduler:descheduler",
        "Run the descheduler, which migrates pods: capacity is reserved elsewhere before a pod is evicted.",
    ),
    "colocation-profiles": (
        "dra.cli.colocation_profiles:colocation_profiles",
        "Run the loop that gives ClusterColocationProfiles to the admission policy, without a right on policies.",
    ),
    "page": (
        "dra.cli.page.command:page",
        "Serve the page to the users of a cluster: each sees what the user's own rights allow, and changes nothing.",
    ),
    "local": (
        "dra.cli.local.commands:local",
        "Run a small Kubernetes on this machine: API server, scheduler, nodes and workloads in one process.",
    ),
    "demo": (
        "dra.cli.demo.command:demo",
        "Run a demonstration on temporary local planes: it takes a minute and needs no cluster.",
    ),
    "completion": (
        "dra.cli.completion_command:completion",
        "Print the script that completes these commands in a shell.",
    ),
    "manifests": (
        "dra.cli.manifests.manifests_command:manifests",
        "List, print or write the manifests that are part of this package.",
    ),
    "examples": (
        "dra.cli.manifests.examples_command:examples",
        "List, print or write the examples that are part of this package.",
    ),
}


class _ComponentGroup(LazyGroup):
    lazy_subcommands = COMMANDS


@click.group(cls=_ComponentGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dra-reserve")
def main() -> None:
    """Reserve Kubernetes devices for workloads instead of single pods, on unmodified clusters."""


if __name__ == "__main__":
    main(prog_name="dra-reserve")
