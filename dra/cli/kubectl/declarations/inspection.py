"""Declares the inspection commands of ``kubectl dra``; the modules that do the work are imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dra.cli.kubectl.client_flags import client_options
from dra.cli.kubectl.history_flags import history_options, prometheus_options
from dra.cli.kubectl.option_types import DurationParam
from dra.cli.kubectl.print_flags import list_print_options, tree_print_options, watch_option
from dra.cli.kubectl.resource_args import KindParam, NameParam, complete_names_of
from dra.cli.kubectl.resource_table import label_selector_option, selector_options
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource, bundle_option, source_options

if TYPE_CHECKING:
    from dra.cli.cluster_flags import ClusterFlags
    from dra.cli.kubectl.print_flags import PrintOptions
    from dra.cli.kubectl.resource_table import SelectorOptions


@click.command()
@click.argument(
    "kind", metavar="KIND", type=KindParam(("claims", "devices", "pods", "nodes", "reservations", "migrations"))
)
@click.argument("name", required=False, type=NameParam())
@source_options
@selector_options
@list_print_options
@watch_option
def get(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Display claims, devices, pods, nodes, Reservations or migrations, with who uses what.

    Name the objects as KIND, KIND NAME or KIND/NAME. For a claim, PODS counts the pods that use it, LISTED the pods in
    its status.reservedFor. Pods are those that name a claim, or wait behind a scheduling gate of dra-reserve.
    """
    from dra.cli.kubectl.diagnosis.get import print_objects  # noqa: PLC0415 - see the head of the module

    print_objects(**options)


@click.command()
@click.argument("kind", metavar="[KIND]", default="workloads", type=KindParam(("workloads", "nodes", "reservations")))
@source_options
@label_selector_option
@tree_print_options
def tree(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Display workloads as a tree with their claims, devices and pods.

    tree nodes begins with nodes and their devices, tree reservations with Reservations and the claims that they keep.
    -o wide names more than five devices and pods for each claim.
    """
    from dra.cli.kubectl.diagnosis.tree import print_trees  # noqa: PLC0415 - see the head of the module

    print_trees(**options)


@click.command()
@source_options
@selector_options
@click.option(
    "--by",
    type=click.Choice(["namespace", "workload", "node", "class", "capacity"]),
    default="namespace",
    show_default=True,
    help="Grouping of the devices.",
)
@click.option("--batch", is_flag=True, help="Show CPUs and memory of nodes: used, offered to batch pods, and held.")
@click.option("--idle", is_flag=True, help="Show devices that are held and not used, now and over time.")
@history_options
@list_print_options
def usage(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Display how many devices are held and how many are in use.

    HELD counts the devices of claims, USED the devices of claims that pods use, and DEVICES (by node) all offered
    devices; HELD% is the part of all offered devices. A device that several claims share counts for each group of
    claims, and once in the totals. By capacity, the command shows how much of each device that claims share is taken,
    such as memory and core of a card or the CPUs of a node; -o wide adds the bound CPUs. The command includes all
    namespaces unless -n selects one; totals are shown for the whole cluster only.

    With --batch, the command shows the CPUs and the memory of each node: what is used, as its NodeMetric reports, what
    the node offers to batch pods (kubernetes.io/batch-cpu and batch-memory), what such pods hold of it and what is
    left. -o wide adds what pods request and the age of the report; explain node shows how an amount is computed.

    With --idle, the command shows by namespace, workload or class how many devices are held and how many of them are
    used; a GPU that computes nothing, as the NodeMetric of its node reports, is idle. With --prometheus, it adds since
    when a device has been idle, and the device-hours of --since: held, used and idle. The history is that of the
    namespaces whose claims you may list.
    """
    from dra.cli.kubectl.diagnosis.usage import print_usage  # noqa: PLC0415 - see the head of the module

    print_usage(**options)


@click.command()
@source_options
@list_print_options
@click.option(
    "--fail-on",
    type=click.Choice(["error", "leak", "warning"]),
    default="leak",
    show_default=True,
    help="Lowest grade for which the exit code is 1.",
)
@click.option(
    "--settle",
    type=DurationParam(),
    default="0s",
    help="Read the cluster again after this time, such as 5s, and print only problems found both times.",
)
def audit(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Check a cluster for devices held twice, leaks, zombies and scheduling gates without a running controller.

    The command checks all namespaces unless -n selects one, and prints a fix for each problem. Exit code: 0 no problem
    of the grade of --fail-on or worse, 1 at least one, 2 error.
    """
    from dra.cli.kubectl.diagnosis.audit import print_audit  # noqa: PLC0415 - see the head of the module

    print_audit(**options)


@click.command()
@source_options
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1; 0, the default, selects a free port."
)
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@prometheus_options(note="For the view Idle.")
def ui(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Serve a live page about claims, devices and Reservations to a browser on this machine.

    The page shows what you may read and changes nothing. It listens on 127.0.0.1 and answers only requests that have
    the key of the printed link. With --from, the page shows a bundle. Ctrl-C ends it.
    """
    from dra.cli.kubectl.ui import run_page  # noqa: PLC0415 - see the head of the module

    run_page(**options)


@click.command()
@click.argument("name", required=False, shell_complete=complete_names_of("reservation"))
@client_options
@selector_options
@list_print_options
@bundle_option
@watch_option
def reservations(
    *,
    name: str | None,
    cluster_flags: ClusterFlags,
    bundle: str | None,
    selectors: SelectorOptions,
    output: PrintOptions,
    watch: bool,
) -> None:
    """Display Reservations with their node, usage, owners and expiration.

    Reservations are cluster-scoped. ALLOCATED shows what owner pods use, OF what is held. -o wide also shows the held
    claims and devices, except with -w.
    """
    from dra.cli.kubectl.reservations.reservation_list import print_reservations  # noqa: PLC0415 - see the head of the module

    print_reservations(
        SnapshotSource(cluster_flags=cluster_flags, bundle_path=bundle),
        name,
        selectors=selectors,
        output=output,
        watch=watch,
    )


@click.command()
@click.argument("name", required=False, shell_complete=complete_names_of("migration"))
@client_options
@selector_options
@list_print_options
@bundle_option
@watch_option
def migrations(
    *,
    name: str | None,
    cluster_flags: ClusterFlags,
    bundle: str | None,
    selectors: SelectorOptions,
    output: PrintOptions,
    watch: bool,
) -> None:
    """Display PodMigrationJobs with their pods, nodes and steps.

    PodMigrationJobs are cluster-scoped. FROM shows the node of the pod until the eviction, TO the node that holds its
    room, and STEP what the job does or waits for. See kubectl dra explain migration NAME for the next command.
    """
    from dra.cli.kubectl.migrations.migration_list import print_migrations  # noqa: PLC0415 - see the head of the module

    print_migrations(
        SnapshotSource(cluster_flags=cluster_flags, bundle_path=bundle),
        name,
        selectors=selectors,
        output=output,
        watch=watch,
    )
