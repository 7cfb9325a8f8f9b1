"""The options that name a history: a Prometheus, and how far back it is asked."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from dra.cli.cluster_flags import Command
from dra.cli.kubectl.option_types import HistoryParam


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFlags:
    """The history that the user has named."""

    since: float
    """Seconds."""

    url: str | None
    """Address of the Prometheus; None if there is none."""

    labels: Mapping[str, str]
    """Labels that tell this cluster's series from others."""


def history_options(command: Command) -> Command:
    """Add ``--since``, ``--prometheus`` and ``--prometheus-label``; the command gets all three as `history`."""

    @click.option(
        "--since",
        type=HistoryParam(),
        default="24h",
        show_default=True,
        help="Length of the history, such as 24h, 7d or 1w. Only with --idle.",
    )
    @click.option(
        "--prometheus", "url", metavar="URL", help="Prometheus that scrapes the controller. Only with --idle."
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
    def wrapped(*, since: float, url: str | None, prometheus_labels: dict[str, str], **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(history=HistoryFlags(since=since, url=url, labels=prometheus_labels), **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added


def _parse_labels(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not (sign and name):
            raise click.BadParameter(f"{pair!r}: use the form cluster=eu-1", ctx=ctx, param=param)
        labels[name] = value
    return labels
