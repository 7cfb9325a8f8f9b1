"""The description of one object, as `kubectl dra explain` prints it, in parts that the page can link and copy."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import click

from dra.cli.kubectl.diagnosis import describer, migration_describer
from dra.cli.kubectl.diagnosis.explanation import describe_devices
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.printers import LABEL_WIDTH
from dra.cli.kubectl.reservations import reservation_describer
from dra.cli.page.page_tables import PageTables
from dra.engine.diagnosis import claims, pods
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.messages.texts import singularize
from dra.model.meta import Key

Lines = list[tuple[str, str]]

FIGURE_SPACE: Final = "\u2007"


def describe(tables: PageTables, *, kind: str, namespace: str, name: str, now: datetime) -> dict[str, Any]:
    """Return the lines of an object with the objects that belong to it; no lines if it does not exist."""
    cluster = tables.cluster
    cluster.refresh()
    title, lines, links = KINDS[kind](cluster, (namespace, name), now)
    return {"kind": kind, "namespace": namespace, "name": name, "title": title, "lines": lines, "links": links}


def _parse(lines: Iterable[str]) -> tuple[str, Lines]:
    """Return the headline and the labelled lines of a description."""
    title, labelled = "", []
    for line in map(click.unstyle, lines):
        if not line.startswith("  "):
            title = singularize(line)
            continue
        label, text = line[:LABEL_WIDTH].strip(), _aligned(line[LABEL_WIDTH:])
        # Commands stay as they are, so that a user can copy them.
        labelled.append((label, text if label == "next" else singularize(text)))
    return title, labelled


def _aligned(text: str) -> str:
    """Return a text with figure spaces before an amount, which are as wide as digits: sums stay aligned."""
    amount = text.lstrip(" ")
    return FIGURE_SPACE * (len(text) - len(amount)) + amount


def _claim(cluster: LiveCluster, key: Key, _: datetime) -> tuple[str, Lines, dict[str, list[str]]]:
    cluster.prepare_claim(key)
    facts = claims.explain(cluster, key)
    if facts is None:
        return "", [], {}
    title, lines = _parse([*describer.describe_claim(facts), *describer.unknown_lines(cluster.snapshot, verbose=True)])
    links = {
        "pods": [f"{key[0]}/{name}" for name in (*facts.consumers, *facts.waiters)],
        "devices": [str(device.whole) for device in facts.devices],
        "nodes": [*facts.nodes],
    }
    return title, lines, links


def _pod(cluster: LiveCluster, key: Key, now: datetime) -> tuple[str, Lines, dict[str, list[str]]]:
    facts = pods.explain(cluster, key)
    if facts is None:
        return "", [], {}
    lines = [*describer.describe_pod(facts)]
    if cluster.snapshot.reservations and facts.stage != "finished":
        lines += reservation_describer.describe_pod_reservations(cluster.snapshot, key)[0]
    if cluster.snapshot.migrations:
        lines += migration_describer.describe_pod_migrations(cluster.snapshot, key, facts.uid, now=now)[0]
    lines += describer.unknown_lines(cluster.snapshot, verbose=True)
    title, parsed = _parse(lines)
    links = {"claims": ["/".join(claim.key) for claim in facts.claims], "nodes": [facts.node] if facts.node else []}
    return title, parsed, links


def _devices(kind: str) -> Callable[[LiveCluster, Key, datetime], tuple[str, Lines, dict[str, list[str]]]]:
    def describe_named(cluster: LiveCluster, key: Key, now: datetime) -> tuple[str, Lines, dict[str, list[str]]]:
        title, lines = _parse(describe_devices(cluster, kind, key[1], verbose=True, now=now))
        if kind == "device":
            return title, lines, {}
        return title, lines, {"pods": [*_pods_on(cluster, key[1])]}

    return describe_named


def _pods_on(cluster: LiveCluster, node: str) -> Iterator[str]:
    """Yield some pods of a node that use claims."""
    return ("/".join(pod_key) for pod_key in cluster.claim_pods_on(node))


def _reservation(cluster: LiveCluster, key: Key, now: datetime) -> tuple[str, Lines, dict[str, list[str]]]:
    return _lines_or_error(lambda: reservation_describer.named_reservation_lines(cluster.snapshot, key[1], now=now))


def _migration(cluster: LiveCluster, key: Key, now: datetime) -> tuple[str, Lines, dict[str, list[str]]]:
    return _lines_or_error(lambda: migration_describer.migration_lines(cluster.snapshot, key[1], now=now))


def _lines_or_error(lines: Callable[[], Iterable[str]]) -> tuple[str, Lines, dict[str, list[str]]]:
    try:
        return (*_parse(lines()), {})
    except FailedError as error:
        return "", [], {"error": [error.message]}


KINDS: Final[dict[str, Callable[[LiveCluster, Key, datetime], tuple[str, Lines, dict[str, list[str]]]]]] = {
    "claim": _claim,
    "pod": _pod,
    "node": _devices("node"),
    "device": _devices("device"),
    "reservation": _reservation,
    "migration": _migration,
}
"""Kind → function of the cluster state, the key and the time: headline, labelled lines and related objects."""
