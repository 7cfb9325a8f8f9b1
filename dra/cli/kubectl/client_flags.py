"""Adds kubectl's flags for requests: which server and user, impersonation, the time limit."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import click

from dra.cli.cluster_flags import ClusterFlags, Command, cluster_options, complete_entries
from dra.cli.kubectl.option_types import DurationParam
from dra.kube.config_overrides import NO_OVERRIDES, ConfigOverrides

_FILE: Final = click.Path(exists=True, dir_okay=False)

_CONNECTION_NAMES: Final = (
    "cluster",
    "user",
    "server",
    "token",
    "tls_server_name",
    "insecure_skip_tls_verify",
    "certificate_authority",
    "client_certificate",
    "client_key",
)
_IMPERSONATION_NAMES: Final = ("impersonate_user", "impersonate_uid", "impersonate_groups")
"""Parameters, with the names of the fields of `ConfigOverrides`."""

CLIENT_PARAMETERS: Final = frozenset(
    {"kubeconfig", "context", "request_timeout", *_CONNECTION_NAMES, *_IMPERSONATION_NAMES}
)
"""Parameters of all commands, which kubectl shows in ``kubectl options`` only."""


def client_options(command: Command) -> Command:
    """Add the flags of a command that acts for a user; the command gets them as `cluster_flags`."""

    @connection_options
    @click.option("--as", "impersonate_user", metavar="USER", help="User to impersonate, also of a service account.")
    @click.option(
        "--as-group",
        "impersonate_groups",
        metavar="GROUP",
        multiple=True,
        help="Group to impersonate; can be repeated.",
    )
    @click.option("--as-uid", "impersonate_uid", metavar="UID", help="UID to impersonate.")
    @functools.wraps(command)
    def wrapped(*, cluster_flags: ClusterFlags, **options: Any) -> Any:  # noqa: ANN401 - the command's
        overrides = _with_overrides(cluster_flags.overrides, options, _IMPERSONATION_NAMES)
        rest = {name: value for name, value in options.items() if name not in _IMPERSONATION_NAMES}
        return command(cluster_flags=replace(cluster_flags, overrides=overrides), **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it


def connection_options(command: Command) -> Command:
    """Add the flags that say how to reach the API server; the command gets them as `cluster_flags`."""

    @cluster_options
    @click.option("--cluster", metavar="NAME", shell_complete=complete_entries, help="Name of the kubeconfig cluster.")
    @click.option("--user", metavar="NAME", shell_complete=complete_entries, help="Name of the kubeconfig user.")
    @click.option("-s", "--server", metavar="URL", help="Address and port of the API server.")
    @click.option("--token", metavar="TOKEN", help="Bearer token for authentication to the API server.")
    @click.option(
        "--tls-server-name",
        metavar="NAME",
        help="Name that the certificate of the server must have. Default: the host of its address.",
    )
    @click.option(
        "--insecure-skip-tls-verify",
        is_flag=True,
        help="Do not check the certificate of the server; connections are then insecure.",
    )
    @click.option("--certificate-authority", type=_FILE, help="Certificate file of the certificate authority.")
    @click.option("--client-certificate", type=_FILE, help="Client certificate file for TLS.")
    @click.option("--client-key", type=_FILE, help="Client key file for TLS.")
    @click.option(
        "--request-timeout",
        type=DurationParam(),
        default="0s",
        help="Length of time to wait for one request, such as 10s; by default, requests have limits of their own.",
    )
    @functools.wraps(command)
    def wrapped(*, cluster_flags: ClusterFlags, request_timeout: float, **options: Any) -> Any:  # noqa: ANN401 - as above
        overrides = _with_overrides(cluster_flags.overrides, options, _CONNECTION_NAMES)
        flags = replace(cluster_flags, overrides=overrides, request_timeout=request_timeout or None)
        rest = {name: value for name, value in options.items() if name not in _CONNECTION_NAMES}
        return command(cluster_flags=flags, **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it


def flags_of(options: Mapping[str, Any]) -> ClusterFlags:
    """Return the flags of an unfinished command line, for shell completion."""
    names = ("context", *_CONNECTION_NAMES, *_IMPERSONATION_NAMES)
    return ClusterFlags(kubeconfig=options.get("kubeconfig"), overrides=_with_overrides(NO_OVERRIDES, options, names))


def _with_overrides(before: ConfigOverrides, options: Mapping[str, Any], names: Sequence[str]) -> ConfigOverrides:
    return replace(before, **{name: options[name] for name in names if options.get(name)})
