"""Adds ``--kubeconfig`` and ``--context``, the flags that select the cluster."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFlags:
    """The flags that select the cluster."""

    kubeconfig: str | None = None
    context: str | None = None
    as_user: str | None = None
    """User that requests impersonate."""

    as_groups: tuple[str, ...] = ()
    request_timeout: float | None = None
    """Maximum number of seconds of one request."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers with which the API server impersonates a user."""
        user = (("Impersonate-User", self.as_user),) if self.as_user else ()
        return (*user, *(("Impersonate-Group", each) for each in self.as_groups))


def cluster_options(command: Command) -> Command:
    """Add ``--kubeconfig`` and ``--context``; the command gets both as `cluster_flags`."""

    @click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False),
        help="Path to the kubeconfig file. Default: $KUBECONFIG, ~/.kube/config, or the pod's service account.",
    )
    @click.option("--context", help="Name of the kubeconfig context to use.")
    @functools.wraps(command)
    def wrapped(*, kubeconfig: str | None, context: str | None, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(cluster_flags=ClusterFlags(kubeconfig=kubeconfig, context=context), **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added
