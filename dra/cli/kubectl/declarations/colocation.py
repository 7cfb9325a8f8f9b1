"""Declares ``kubectl dra colocation``; the modules that do the work are imported on use."""

from __future__ import annotations

from typing import Any

import click

from dra.cli.kubectl.client_flags import client_options
from dra.cli.kubectl.declarations.management import namespace_option


@click.group(short_help="Apply ClusterColocationProfiles to new pods, or explain which ones apply to a pod.")
def colocation() -> None:
    """Apply ClusterColocationProfiles to new pods, or explain which ones apply to a pod."""


@colocation.command("apply", short_help="Put all ClusterColocationProfiles into effect.")
@client_options
@click.option("--dry-run", is_flag=True, help="Only print what would change; the API server checks the requests.")
def apply_profiles(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Put all ClusterColocationProfiles into effect: install or update the admission policies and their parameters.

    Run the command after each change of a profile, unless dra-reserve colocation-profiles runs in the cluster. A
    profile that was deleted is no longer in effect afterwards. Needs Kubernetes 1.36.

    Exit code: 0 all profiles are in effect, 1 some are not, 2 error.
    """
    from dra.cli.kubectl.colocation.profile_installer import apply_all  # noqa: PLC0415 - see the head of the module

    apply_all(**options)


@colocation.command("why", short_help="Explain which ClusterColocationProfiles apply to a pod, and why not.")
@click.argument("pod", metavar="[POD]", required=False)
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    metavar="FILE",
    help="Manifest files whose pods and pod templates to explain, as if they were created now. Can be repeated.",
)
@client_options
@namespace_option("Namespace of the pod. Default: the namespace of the manifest or of the context.")
def why(**options: Any) -> None:  # noqa: ANN401 - the options above
    """Explain for each ClusterColocationProfile whether it applies to a pod, or the first test that fails.

    A pod that was refused does not exist: give its manifest, or that of its workload, with -f.

    Exit code: 0 a profile applies to each pod, 1 none applies to one of them, 2 error.
    """
    from dra.cli.kubectl.colocation.profile_explanation import explain_pods  # noqa: PLC0415 - as above

    explain_pods(**options)
