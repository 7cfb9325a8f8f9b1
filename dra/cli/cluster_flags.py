"""Adds ``--kubeconfig`` and ``--context``, the flags that select the cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dra.kube.config_overrides import NO_OVERRIDES, ConfigOverrides

if TYPE_CHECKING:
    from dra.kube.credentials import Credentials

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFlags:
    """The flags that select the cluster and the user of requests."""

    kubeconfig: str | None = None
    overrides: ConfigOverrides = NO_OVERRIDES
    request_timeout: float | None = None
    """Maximum number of seconds of one request."""

    def with_default_kubeconfig(self, path: str) -> ClusterFlags:
        """Return flags with a kubeconfig file that counts if the command line names none; empty: as these are."""
        return self if self.kubeconfig or not path else replace(self, kubeconfig=path)

    def find_credentials(self) -> Credentials:
        """Return the credentials that the flags select; raise ApiError."""
        from dra.kube import credentials  # noqa: PLC0415 - help needs no TLS

        return credentials.find(self.kubeconfig, overrides=self.overrides)

    def current_namespace(self) -> str:
        """Return the namespace of the selected context, empty if it sets none; raise ApiError."""
        from dra.kube import credentials  # noqa: PLC0415 - as above

        return credentials.current_namespace(self.kubeconfig, overrides=self.overrides)


def complete_entries(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the contexts, clusters or users of the kubeconfig that begin with the incomplete word."""
    from dra.kube import credentials, kubeconfigs  # noqa: PLC0415 - as above

    try:
        kubeconfig = kubeconfigs.read_kubeconfig(credentials.kubeconfig_paths(ctx.params.get("kubeconfig")))
    except kubeconfigs.MalformedKubeconfigError:
        return []
    names = {"context": kubeconfig.contexts, "cluster": kubeconfig.clusters, "user": kubeconfig.users}[str(param.name)]
    return [name for name in names if name.startswith(incomplete)]


def cluster_options(command: Command) -> Command:
    """Add ``--kubeconfig`` and ``--context``; the command gets both as `cluster_flags`."""

    @click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False),
        help="Path to the kubeconfig file. Default: $KUBECONFIG, ~/.kube/config, or the pod's service account.",
    )
    @click.option("--context", shell_complete=complete_entries, help="Name of the kubeconfig context to use.")
    @functools.wraps(command)
    def wrapped(*, kubeconfig: str | None, context: str | None, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        overrides = ConfigOverrides(context=context or "")
        return command(cluster_flags=ClusterFlags(kubeconfig=kubeconfig, overrides=overrides), **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added
