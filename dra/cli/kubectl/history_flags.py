"""The options that name a history: a Prometheus, and how far back it is asked."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from dra.cli.cluster_flags import Command
from dra.cli.kubectl.option_types import HistoryParam


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusFlags:
    """The Prometheus that the user has named."""

    url: str | None
    """Address of the Prometheus; None if there is none."""

    labels: Mapping[str, str]
    """Labels that tell this cluster's series from others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFlags(PrometheusFlags):
    """The history that the user has named."""

    since: float
    """Seconds."""


def prometheus_options(*, note: str) -> Callable[[Command], Command]:
    """Add ``--prometheus`` and ``--prometheus-label``; the command gets both as ``prometheus``.

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
        @functools.wraps(command)
        def wrapped(*, url: str | None, prometheus_labels: dict[str, str], **rest: Any) -> Any:  # noqa: ANN401 - the command's
            return command(prometheus=PrometheusFlags(url=url, labels=prometheus_labels), **rest)

        return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added

    return decorate


def history_options(command: Command) -> Command:
    """Add ``--since``, ``--prometheus`` and ``--prometheus-label``; the command gets all three as `history`."""

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
        history = HistoryFlags(since=since, url=prometheus.url, labels=prometheus.labels)
        return command(history=history, **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added


def _parse_labels(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not (sign and name):
            raise click.BadParameter(f"{pair!r}: use the form cluster=eu-1", ctx=ctx, param=param)
        labels[name] = value
    return labels
