"""The options that name a history: a Prometheus, and how far back it is asked."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dra.cli.cluster_flags import Command
from dra.cli.kubectl.option_types import HistoryParam

if TYPE_CHECKING:
    from dra.cli.prometheus import PrometheusAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusFlags:
    """The Prometheus that the user has named."""

    url: str | None
    """Address of the Prometheus; None if there is none."""

    labels: Mapping[str, str]
    """Labels that tell this cluster's series from others."""

    ca: Path | None
    token_file: Path | None

    def address(self) -> "PrometheusAddress":
        """Return the address of the Prometheus; raise PrometheusError."""
        from dra.cli.prometheus import PrometheusAddress  # noqa: PLC0415 - only who asks for history needs a client

        return PrometheusAddress.parse(self.url or "", ca=self.ca, token_file=self.token_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFlags:
    """The history that the user has named."""

    prometheus: PrometheusFlags

    since: float
    """Seconds."""


def prometheus_options(*, note: str) -> Callable[[Command], Command]:
    """Add ``--prometheus`` and the options that begin so; the command gets all of them as ``prometheus``.

    ``note``: sentence for the help of the first option.
    """

    def decorate(command: Command) -> Command:
        @click.option(
            "--prometheus", "url", metavar="URL", help=f"Prometheus that scrapes the controller. {note}".strip()
        )
        @click.option(
            "--prometheus-label",
            "prometheus_labels",
            metavar="NAME=VALUE",
            multiple=True,
            callback=_parse_labels,
            help="Label of this cluster's series, where a Prometheus has several clusters; may be repeated.",
        )
        @click.option(
            "--prometheus-ca",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="PEM file with the CA of an https:// address, instead of the system's CAs.",
        )
        @click.option(
            "--prometheus-token-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File with a bearer token, which is read again for each query and sent over https:// alone.",
        )
        @functools.wraps(command)
        def wrapped(
            *,
            url: str | None,
            prometheus_labels: dict[str, str],
            prometheus_ca: Path | None,
            prometheus_token_file: Path | None,
            **rest: Any,  # noqa: ANN401 - the command's
        ) -> Any:  # noqa: ANN401 - the command's
            if url is None and (prometheus_ca or prometheus_token_file):
                raise click.UsageError("--prometheus-ca and --prometheus-token-file need --prometheus")
            flags = PrometheusFlags(
                url=url, labels=prometheus_labels, ca=prometheus_ca, token_file=prometheus_token_file
            )
            return command(prometheus=flags, **rest)

        return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added

    return decorate


def history_options(command: Command) -> Command:
    """Add ``--since`` and the options of `prometheus_options`; the command gets all of them as ``history``."""

    @click.option(
        "--since",
        type=HistoryParam(),
        default="24h",
        show_default=True,
        help="Length of the history, such as 24h, 7d or 1w. Only with --idle.",
    )
    @prometheus_options(note="Only with --idle.")
    @functools.wraps(command)
    def wrapped(*, since: float, prometheus: PrometheusFlags, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(history=HistoryFlags(since=since, prometheus=prometheus), **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added


def _parse_labels(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not (sign and name):
            raise click.BadParameter(f"{pair!r}: use the form cluster=eu-1", ctx=ctx, param=param)
        labels[name] = value
    return labels
