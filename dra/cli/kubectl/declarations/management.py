"""Declares the management commands of ``kubectl dra``; the modules that do the work are imported on use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dra.api.rbac import NAMESPACE
from dra.cli.kubectl.client_flags import client_options
from dra.cli.kubectl.manifests import filename_option
from dra.cli.kubectl.object_names import complete_namespace
from dra.cli.kubectl.option_types import DryRunCommand, DurationParam, TimeoutParam
from dra.cli.kubectl.option_values import CPU_BIND_POLICIES, DRY_RUN_STRATEGIES, FIELD_MANAGER, MIGRATION_MODES
from dra.cli.kubectl.print_flags import RESULT_FORMATS, OutputParam, list_print_options
from dra.cli.kubectl.printers import OutputFormat
from dra.cli.kubectl.resource_args import MIGRATED_KINDS, KindParam, NameParam, complete_names_of, complete_workload
from dra.cli.kubectl.resource_table import selector_options
from dra.cli.kubectl.snapshots.snapshot_source import source_options
from dra.cli.kubectl.wait_conditions import WAITED_STATES, WaitConditionParam

if TYPE_CHECKING:
    from dra.cli.cluster_flags import Command


def namespace_option(help_text: str) -> Callable[[Command], Command]:
    """Return the option ``-n`` with a help text; the command gets `namespace`, None without the option."""
    return click.option("-n", "--namespace", metavar="NAMESPACE", shell_complete=complete_namespace, help=help_text)


@click.command()
@filename_option
@source_options
@click.option(
    "--add-nodes",
    "added",
    multiple=True,
    metavar="NODE=COUNT",
    shell_complete=complete_names_of("node", suffix="="),
    help="Add COUNT copies of NODE, with its devices.",
)
@click.option(
    "--cordon",
    "cordoned",
    multiple=True,
    metavar="NODE",
    shell_complete=complete_names_of("node"),
    help="Simulate the cluster with NODE cordoned.",
)
@click.option(
    "--drop-reservation",
    "dropped",
    multiple=True,
    metavar="[NAMESPACE/]CLAIM|WORKLOAD|reservation/NAME",
    shell_complete=complete_names_of("claim"),
    help=(
        "Simulate the cluster without the allocation of a claim, or of the claims of a workload (jobs.batch/train), "
        "and without the pods that use them; or without a Reservation."
    ),
)
@click.option(
    "--default-cpu-bind-policy",
    "default_policy",
    type=click.Choice(CPU_BIND_POLICIES),
    help=(
        "Bind policy of LSE and LSR pods that name none; by default defaultCPUBindPolicy of the controller's "
        "configuration, or FullPCPUs where this cannot be read."
    ),
)
@selector_options
@list_print_options
def simulate(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Simulate scheduling: display nodes and devices for the pods of manifests, or why pods stay Pending.

    The command changes nothing: it simulates a scheduler on the current state of the cluster, including its Pending
    pods. A PodMigrationJob is simulated with its Reservation and the move, but without limits and disruption budgets.
    A DeviceTaintRule is simulated with the pods that it evicts; controllers do not replace these pods.
    The output names pods that would be preempted. Of a pod with fields that are not simulated, such as
    podAntiAffinity or a PersistentVolumeClaim, it says only on which node the pod would have devices, CPU and memory.
    Exit code: 0 all pods would be scheduled, 1 some would stay Pending, 2 error, 3 none would stay Pending, but not all
    fields of the pods are simulated.
    """
    from dra.cli.kubectl.simulate.command import print_simulation  # noqa: PLC0415 - see the head of the module

    print_simulation(**options)


@click.command()
@filename_option
@client_options
@namespace_option("Namespace of the objects. Default: the namespace of the manifest or of the context.")
@click.option(
    "--dry-run",
    type=click.Choice(DRY_RUN_STRATEGIES),
    is_flag=False,
    flag_value="client",
    default="none",
    help="client: only print the objects that would be sent; server: submit the request without persisting it.",
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that other field managers own.")
@click.option("--field-manager", default=FIELD_MANAGER, show_default=True, help="Name of the field manager.")
@click.option(
    "-o",
    "--output",
    type=OutputParam(RESULT_FORMATS),
    default=OutputFormat.TABLE.value,
    help="Output format.",
)
def apply(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Apply manifests that use spec.reservedFor (KEP-5194) to any API server.

    If the server does not know the field, the claim gets the corresponding annotations of dra-reserve. All other
    objects are applied as with kubectl apply --server-side. Before Kubernetes 1.36, requests for CPUs and GPUs in
    Koordinator's form become claims, in namespaces labelled reserve.dra/koordinator=enabled.

    Exit code: 0 all objects were applied, 1 some were not, 2 none could be.
    """
    from dra.cli.kubectl.apply import apply_manifests  # noqa: PLC0415 - see the head of the module

    apply_manifests(**options)


@click.command()
@click.argument("name")
@click.option("--cpu", metavar="AMOUNT", help="CPUs to reserve, such as 6 or 500m.")
@click.option("--memory", metavar="AMOUNT", help="Memory to reserve, such as 20Gi.")
@click.option(
    "--resource", "others", metavar="NAME=AMOUNT", multiple=True, help="Other resource to reserve. Can be repeated."
)
@click.option(
    "--owner",
    "owners",
    metavar="RESOURCE/NAME",
    multiple=True,
    shell_complete=complete_workload,
    help=(
        "Owner of the Reservation: jobs.batch/train or job/train for the pods of a workload, pod/NAME for one pod. "
        "The owner need not exist yet. Can be repeated."
    ),
)
@click.option(
    "-l", "--selector", "labels", metavar="SELECTOR", default="", help="Labels of pods that may use the Reservation."
)
@namespace_option("Namespace of the owners. Default: the namespace of the context.")
@click.option("-A", "--all-namespaces", is_flag=True, help="With -l: pods with these labels in all namespaces.")
@click.option(
    "--ttl",
    metavar="DURATION",
    help="Lifetime of the Reservation, such as 1h or 30m; 0s never expires. Default: 24h.",
)
@click.option("--expires", metavar="TIME", help="Expiration time, such as 2026-11-21T15:00:00Z.")
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=complete_names_of("node"),
    help="Reserve resources of this node only.",
)
@click.option(
    "--reusable", is_flag=True, help="Let one owner pod after another use the Reservation, not only the first."
)
@click.option(
    "--policy",
    type=click.Choice(["Aligned", "Restricted"]),
    help="Restricted: owner pods use only the reserved resources, not the rest of the node.",
)
@click.option(
    "--dry-run",
    type=click.Choice(DRY_RUN_STRATEGIES),
    default="none",
    is_flag=False,
    flag_value="client",
    help="client: only print the object; server: submit the request without persisting it.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice([OutputFormat.NAME.value, OutputFormat.JSON.value, OutputFormat.YAML.value]),
    help="Print the object instead of a message.",
)
@client_options
def reserve(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Reserve CPUs, memory and other resources of a node for future pods.

    The capacity is reserved once a scheduler that calls the scheduler extender has found a node. See kubectl dra why
    reservation/NAME for the node, or for the reason why there is none.
    """
    from dra.cli.kubectl.reservations.reserve import create_reservation  # noqa: PLC0415 - see the head of the module

    create_reservation(**options)


@click.command(cls=DryRunCommand)
@click.argument("kind", metavar="pod|node", type=KindParam(MIGRATED_KINDS))
@click.argument("name", required=False, type=NameParam())
@client_options
@namespace_option("Namespace of the pod. Default: the namespace of the context.")
@click.option(
    "--mode",
    type=click.Choice(MIGRATION_MODES),
    help="ReservationFirst: evict the pod once its room is held on another node. EvictDirectly: evict it at once. "
    "Default: as the descheduler is configured, ReservationFirst.",
)
@click.option(
    "--ttl",
    metavar="DURATION",
    default="",
    help="Time after which an unfinished migration fails, such as 10m; 0s is unlimited. Default: 1h for the pods of a "
    "node, which wait for one another; for one pod as the descheduler is configured, 5m.",
)
@click.option(
    "--cordon",
    is_flag=True,
    help="With node: mark the node unschedulable first. It stays so; the command never undoes it.",
)
@click.option(
    "--without-cpus",
    is_flag=True,
    help="With node: migrate only pods of QoS class LSE or LSR that have no claim for CPUs and whose replacements get "
    "one. Such pods were created before their namespace was labelled reserve.dra/koordinator=enabled.",
)
@click.option(
    "--dry-run",
    type=click.Choice(DRY_RUN_STRATEGIES),
    default="none",
    help="client, server, or no value: print what would happen to each pod without changing anything.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --dry-run: configuration file of the descheduler whose limits and rules are assumed. Default: the "
    "configuration of the installed descheduler.",
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Follow the migrations until they have ended.")
@click.option(
    "--timeout",
    type=DurationParam(),
    default="0s",
    show_default=True,
    help="Length of time to follow the migrations; 0s follows until all have ended.",
)
@click.option(
    "--lease-namespace", default=NAMESPACE, show_default=True, help="Namespace of the descheduler and of its lease."
)
def migrate(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Migrate a pod, or all pods of a node, to other nodes without losing capacity.

    For each pod the command creates a PodMigrationJob, which the descheduler of dra-reserve carries out: a Reservation
    holds the room on another node, then the pod is evicted, and its replacement uses the room. A repeated command
    follows the jobs that run already. After Ctrl-C the migrations go on. Exit code: 0 all pods moved, 1 a migration
    failed, was refused or has not ended in time, 2 error.
    """
    from dra.cli.kubectl.migrate.command import run_migrations  # noqa: PLC0415 - see the head of the module

    run_migrations(**options)


@click.command(cls=DryRunCommand)
@click.argument("what", metavar="claim", type=KindParam(("claim",)))
@click.argument("name", required=False, type=NameParam())
@client_options
@namespace_option("Namespace of the objects. Default: the namespace of the context.")
@click.option(
    "--timeout",
    type=DurationParam(),
    default="240s",
    show_default=True,
    help="Length of time to wait before giving up.",
)
@click.option(
    "--dry-run",
    type=click.Choice(DRY_RUN_STRATEGIES),
    default="none",
    help="client, server, or no value: print what would be done without doing it.",
)
@click.option("--if-unused", is_flag=True, help="Refuse if anything keeps the claim.")
@click.option("--lease-namespace", default=NAMESPACE, show_default=True, help="Namespace of the controller's lease.")
def release(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Release the devices of a claim; you confirm that no pod uses the claim.

    The command refuses while a pod on a Ready node uses the claim, and waits for pods that may be bound at any moment.
    The dra-reserve controller releases the claim if it runs, else this command does. Exit code: 0 released, 1 refused,
    2 error.
    """
    from dra.cli.kubectl.claim_commands import run_release  # noqa: PLC0415 - see the head of the module

    run_release(**options)


@click.command()
@click.argument("what", metavar="claim|reservation", type=KindParam(tuple(WAITED_STATES)))
@click.argument("name", required=False, type=NameParam())
@client_options
@namespace_option("Namespace of the objects. Default: the namespace of the context.")
@click.option(
    "--for",
    "condition",
    type=WaitConditionParam(),
    help="The condition to wait for. Default: released for a claim, available for a Reservation.",
)
@click.option(
    "--timeout",
    type=TimeoutParam(),
    default="30s",
    show_default=True,
    help="Length of time to wait before giving up. Zero: check once; negative: wait for a week.",
)
def wait(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Wait until a claim is released or allocated, or a Reservation is available or has ended.

    A deleted claim counts as released, a deleted Reservation as ended. --for=delete waits until the object is gone,
    --for=condition=TYPE for a condition of the status of a Reservation. After the timeout, the command prints what
    keeps the claim, or what the Reservation waits for. Exit code: 0 the condition is met, 1 the timeout has passed, or
    a Reservation that was to become available has ended, 2 error.
    """
    from dra.cli.kubectl.waiting import run_wait  # noqa: PLC0415 - see the head of the module

    run_wait(**options)
