"""The description of one object, as `kubectl dra explain` prints it, in parts that the page can link and copy."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import click
import msgspec

from dra.cli.kubectl.diagnosis import describer, migration_describer, workload_describer
from dra.cli.kubectl.diagnosis.explanation import describe_devices
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.printers import LABEL_WIDTH
from dra.cli.kubectl.reservations import reservation_describer
from dra.cli.page.page_tables import PageTables
from dra.engine.diagnosis import claim_workloads, claims, pods, workloads
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.messages.texts import singularize
from dra.model.meta import Key

Lines = list[tuple[str, str]]
Description = tuple[str, Lines, dict[str, list[str]]]
"""Headline, labelled lines, and names of related objects by group."""

LINKS_MAX: Final = 200
"""Maximum number of objects of a kind that the page of a workload links to."""

FIGURE_SPACE: Final = "\u2007"


def describe(tables: PageTables, *, kind: str, namespace: str, name: str, now: datetime) -> dict[str, Any]:
    """Return the lines of an object with the objects that belong to it; no lines if it does not exist.

    ``uid`` is that of an object whose Events are shown; else empty.
    """
    tables.cluster.refresh()
    title, lines, links = KINDS[kind](tables, (namespace, name), now)
    claim = tables.cluster.claim_cache.claim((namespace, name)) if kind == "claim" else None
    return {
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "title": title,
        "lines": lines,
        "links": links,
        "uid": claim.metadata.uid if claim is not None else "",
    }


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


def _claim(tables: PageTables, key: Key, _: datetime) -> Description:
    cluster = tables.cluster
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


def _pod(tables: PageTables, key: Key, now: datetime) -> Description:
    cluster = tables.cluster
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


def _workload(tables: PageTables, key: Key, _: datetime) -> Description:
    """Describe a workload, named as in claims: ``jobs.batch/train``."""
    cluster, snapshot = tables.cluster, tables.cluster.snapshot
    target = claim_workloads.controller_of(snapshot, key[0], reference=key[1])
    own = tables.claims_of(key[0], key[1])
    if target is None:
        links = {"claims": ["/".join(claim.key) for claim in own][:LINKS_MAX]}
        return "", [("claims", f"{len(own)}; the workload is looked up within seconds")] if own else [], links
    controllers = claim_workloads.pod_controllers(target, (pod for facts in own for pod in cluster.pods_of(facts.key)))
    cluster.snapshot = msgspec.structs.replace(snapshot, controllers=tuple(controllers))
    try:
        facts = workloads.explain(cluster, target)
    finally:
        cluster.snapshot = snapshot
    unknown = describer.unread_lines(snapshot, verbose=True)
    title, lines = _parse([*workload_describer.describe_workload(facts), *unknown])
    if own and not facts.exists:  # or its kind could not be read
        title = f"workload {'/'.join(key)}: {describer.workload_fate_text(own[0])}"
    links = {
        "claims": ["/".join(claim.key) for claim in facts.claims],
        "pods": [f"{key[0]}/{pod}" for claim in facts.claims for pod in (*claim.consumers, *claim.waiters)],
        "devices": [str(device.whole) for claim in facts.claims for device in claim.devices],
        "nodes": [node for claim in facts.claims for node in claim.nodes],
    }
    return title, lines, {group: [*dict.fromkeys(names)][:LINKS_MAX] for group, names in links.items()}


def _node(tables: PageTables, key: Key, now: datetime) -> Description:
    title, lines = _parse(describe_devices(tables.cluster, "node", key[1], verbose=True, now=now))
    return (
        title,
        lines,
        {"reservations": [*tables.reservations_on(key[1])], "pods": [*_pods_on(tables.cluster, key[1])]},
    )


def _device(tables: PageTables, key: Key, now: datetime) -> Description:
    title, lines = _parse(describe_devices(tables.cluster, "device", key[1], verbose=True, now=now))
    return title, [*lines, *(("before", text) for text in tables.past_holders(key[1]))], {}


def _pods_on(cluster: LiveCluster, node: str) -> Iterator[str]:
    """Yield some pods of a node that use claims."""
    return ("/".join(pod_key) for pod_key in cluster.claim_pods_on(node))


def _reservation(tables: PageTables, key: Key, now: datetime) -> Description:
    return _lines_or_error(
        lambda: reservation_describer.named_reservation_lines(tables.cluster.snapshot, key[1], now=now)
    )


def _migration(tables: PageTables, key: Key, now: datetime) -> Description:
    return _lines_or_error(lambda: migration_describer.migration_lines(tables.cluster.snapshot, key[1], now=now))


def _lines_or_error(lines: Callable[[], Iterable[str]]) -> Description:
    try:
        return (*_parse(lines()), {})
    except FailedError as error:
        return "", [], {"error": [error.message]}


KINDS: Final[dict[str, Callable[[PageTables, Key, datetime], Description]]] = {
    "claim": _claim,
    "pod": _pod,
    "node": _node,
    "device": _device,
    "reservation": _reservation,
    "migration": _migration,
    "workload": _workload,
}
"""Kind → function of the tables, the key and the time: headline, labelled lines and related objects."""
