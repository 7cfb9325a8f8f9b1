"""Declares the installation commands of ``kubectl dra``; the modules that do the work are imported on use."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dra.api.rbac import LEASE_NAME, NAMESPACE, SERVICE_ACCOUNT
from dra.cli.kubectl.client_flags import client_options, connection_options
from dra.cli.kubectl.object_names import complete_namespace
from dra.cli.kubectl.option_types import DurationParam
from dra.cli.kubectl.option_values import CONTROLLER_MODES, DEFAULT_MODE, OPTIONAL_COMPONENTS
from dra.cli.kubectl.print_flags import print_options

if TYPE_CHECKING:
    from dra.cli.cluster_flags import Command
    from dra.model.meta import Key


def namespace_options(command: Command) -> Command:
    """Add ``-n`` and ``-A``; the command gets `namespace`, None for all namespaces, which is the default."""

    @click.option(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        shell_complete=complete_namespace,
        help="Limit the command to this namespace.",
    )
    @click.option("-A", "--all-namespaces", is_flag=True, help="Include all namespaces (the default).")
    @functools.wraps(command)
    def wrapped(*, namespace: str | None, all_namespaces: bool, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(namespace=None if all_namespaces else namespace, **rest)

    return wrapped  # type: ignore[return-value] # as above


def _complete_components(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the components that begin with the last of the incomplete words, behind the words before it."""
    del ctx, param
    before, comma, last = incomplete.rpartition(",")
    chosen = before.split(",")
    return [
        f"{before}{comma}{component}"
        for component in OPTIONAL_COMPONENTS
        if component.startswith(last) and component not in chosen
    ]


def _parse_claim_keys(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> frozenset[Key]:
    keys = set()
    for value in values:
        namespace, slash, name = value.partition("/")
        if not slash or not namespace or not name:
            raise click.BadParameter(f"{value!r} is not of the form NAMESPACE/NAME")
        keys.add((namespace, name))
    return frozenset(keys)


@click.command()
@connection_options
@print_options
@click.option(
    "--mode",
    type=click.Choice(CONTROLLER_MODES),
    default=DEFAULT_MODE,
    show_default=True,
    help="Mode in which the controller will run.",
)
@click.option(
    "--koordinator",
    is_flag=True,
    help="Check for koordinator: true as well. Default: only if parts of component koordinator are installed.",
)
@click.option(
    "--as",
    "reviewed_user",
    default=f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}",
    show_default=True,
    help="User or service account whose permissions are checked.",
)
@click.option("--self", "own", is_flag=True, help="Check your own permissions instead.")
@click.option("--lease-namespace", default=NAMESPACE, show_default=True, help="Namespace of the controller's lease.")
@click.option(
    "--probe", is_flag=True, help="Verify the stock controller with a temporary pod in a temporary namespace."
)
@click.option("--missing-rights", is_flag=True, help="Print only the YAML that grants the missing permissions.")
def preflight(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Check whether the cluster is ready for dra-reserve.

    The command changes nothing unless --probe is set. Exit code: 0 ready, 1 not ready, 2 error.
    """
    from dra.cli.kubectl.preflight.command import run_preflight  # noqa: PLC0415 - see the head of the module

    run_preflight(**options)


@click.command()
@client_options
@click.option("--class", "device_class", metavar="NAME", help="DeviceClass of the device. Default: the only one.")
@click.option("--image", default="busybox:1.37", show_default=True, help="Image that has the command sleep.")
@click.option("--timeout", type=DurationParam(), default="3m", show_default=True, help="Length of time to wait.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write a report that you can share: versions, feature gates and times, without names of your cluster.",
)
def verify(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Verify an installation with one pod: it gets a device, and the device is freed.

    The command creates a temporary namespace with a claim that is reserved for a Job of one pod, and deletes the
    namespace at the end. Exit code: 0 the installation works, 1 a step was not seen in time, 2 error.
    """
    from dra.cli.kubectl.verify.command import run_verify  # noqa: PLC0415 - see the head of the module

    run_verify(**options)


@click.command()
@client_options
@print_options
@click.option(
    "--mode",
    type=click.Choice(CONTROLLER_MODES),
    default=DEFAULT_MODE,
    show_default=True,
    help="alongside: any cluster; replace: the stock claim controller is disabled, by you.",
)
@click.option(
    "--with",
    "optional",
    metavar="NAME[,NAME]",
    shell_complete=_complete_components,
    default="",
    help=f"Components in addition: {', '.join(OPTIONAL_COMPONENTS)}.",
)
@click.option(
    "--gate",
    "gated",
    multiple=True,
    metavar="NAMESPACE",
    shell_complete=complete_namespace,
    help="Gate new pods of this namespace that name a claim, so that they start faster. Can be repeated.",
)
@click.option("--image", help="Image to run. Default: the installed image, or the one that the manifests name.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration of the controller. Default: the installed configuration, or the package's.",
)
@click.option("--dry-run", is_flag=True, help="Only print the plan; the API server checks each object.")
@click.option("--yes", is_flag=True, help="Do not ask before writing.")
@click.option("--force-conflicts", is_flag=True, help="Take over fields that other field managers own.")
def install(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Install dra-reserve, or upgrade or extend an installation, after showing a plan.

    The plan lists each object that is created, changed or left unchanged, as the API server would store it. Settings
    and image of an installation are kept. In mode replace, you disable the stock claim controller yourself.

    With --gate, no such pod of the namespace starts while no controller works: see kubectl dra ungate --help.

    Exit code: 0 installed, or nothing prevents it; 1 something prevents it, or you declined; 2 error.
    """
    from dra.cli.kubectl.install.command import run_install  # noqa: PLC0415 - see the head of the module

    run_install(**options)


@click.command()
@click.argument("namespaces", metavar="NAMESPACE...", nargs=-1, required=True, shell_complete=complete_namespace)
@client_options
@click.option("--keep-label", is_flag=True, help="Leave the label that makes the policy gate new pods.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
def ungate(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Remove the gate reserve.dra/claim from the pods of namespaces, also while no controller works.

    The command first removes the label reserve.dra/gate from each namespace, so that new pods get no gate. Gates of
    other projects stay. Pods without the gate start more slowly, and as safely. To gate the namespaces again, use
    kubectl dra install --gate. Exit code: 0 no pod has the gate, 1 a pod or a label was left, 2 error.
    """
    from dra.cli.kubectl.gate.ungate import run_ungate  # noqa: PLC0415 - see the head of the module

    run_ungate(**options)


@click.command()
@client_options
@print_options
@namespace_options
@click.option("--apply", is_flag=True, help="Apply the changes; without this flag, the command only prints them.")
@click.option(
    "--give-up",
    "given_up",
    multiple=True,
    metavar="NAMESPACE/NAME",
    callback=_parse_claim_keys,
    help="Give up the reservation of a claim that no pod uses. Can be repeated.",
)
@click.option("--purge", is_flag=True, help="Uninstall: also remove what is needed to re-enable the controllers later.")
@click.option("--probe", is_flag=True, help="Verify the stock controller, as kubectl dra preflight --probe does.")
@click.option("--lease-namespace", default=NAMESPACE, show_default=True, help="Namespace of the controllers' lease.")
@click.option("--lease-name", default=LEASE_NAME, show_default=True, help="Name of the controllers' lease.")
def downgrade(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Downgrade to stock Kubernetes without losing devices or stopping pods.

    The command prints the remaining steps for each claim and for the cluster. With --apply, the controllers stand down,
    every pod that uses a claim is listed in the claim, and entries that only dra-reserve understands are removed. The
    command can be interrupted and run again at any time. Exit code: 0 ready, 1 steps remain, 2 error.
    """
    from dra.cli.kubectl.downgrade.command import run_downgrade  # noqa: PLC0415 - see the head of the module

    run_downgrade(**options)


@click.command()
@client_options
@print_options
@click.option("--dry-run", is_flag=True, help="Only print the current state.")
@click.option("--timeout", type=DurationParam(), default="90s", show_default=True, help="Length of time to wait.")
@click.option("--lease-namespace", default=NAMESPACE, show_default=True, help="Namespace of the controllers' lease.")
@click.option("--lease-name", default=LEASE_NAME, show_default=True, help="Name of the controllers' lease.")
def adopt(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Re-enable the controllers after a downgrade and verify them.

    Exit code: 0 the controllers run and every claim in use lists its workload, 1 not yet, 2 error.
    """
    from dra.cli.kubectl.downgrade.adopt import print_adoption  # noqa: PLC0415 - see the head of the module

    print_adoption(**options)


@click.command()
@client_options
@print_options
@click.option("--crds", is_flag=True, help="Also delete the kinds of dra-reserve, and with them all their objects.")
@click.option("--dry-run", is_flag=True, help="Only print the plan.")
@click.option("--yes", is_flag=True, help="Do not ask before deleting.")
def uninstall(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Delete what was installed, after showing a plan; a downgrade comes first.

    The command deletes what kubectl dra install or a kustomization has installed. Objects of a Helm release, objects
    without the label of dra-reserve and namespaces with other content are kept, and so are the kinds without --crds.

    Exit code: 0 uninstalled, or nothing prevents it; 1 a step of the downgrade remains, or you declined; 2 error.
    """
    from dra.cli.kubectl.install.uninstall import run_uninstall  # noqa: PLC0415 - see the head of the module

    run_uninstall(**options)
