"""Adds kubectl's flags for requests to the flags that select the cluster: ``--as``, ``--request-timeout``."""

import functools
from dataclasses import replace
from typing import Any

import click

from dra.cli.cluster_flags import ClusterFlags, Command, cluster_options
from dra.cli.kubectl.option_types import DurationParam


def client_options(command: Command) -> Command:
    """Add the flags of a command that acts for a user; the command gets them as `cluster_flags`."""

    @cluster_options
    @click.option("--as", "as_user", metavar="USER", help="User to impersonate, also of a service account.")
    @click.option(
        "--as-group", "as_groups", metavar="GROUP", multiple=True, help="Group to impersonate; can be repeated."
    )
    @click.option(
        "--request-timeout",
        type=DurationParam(),
        default="0s",
        help="Length of time to wait for one request, such as 10s; by default, requests have limits of their own.",
    )
    @functools.wraps(command)
    def wrapped(
        *,
        cluster_flags: ClusterFlags,
        as_user: str | None,
        as_groups: tuple[str, ...],
        request_timeout: float,
        **rest: Any,  # noqa: ANN401 - the command's
    ) -> Any:  # noqa: ANN401 - the command's
        if as_groups and not as_user:
            raise click.UsageError("--as-group requires --as: the API server impersonates groups of a user only")
        flags = replace(cluster_flags, as_user=as_user, as_groups=as_groups, request_timeout=request_timeout or None)
        return command(cluster_flags=flags, **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it
