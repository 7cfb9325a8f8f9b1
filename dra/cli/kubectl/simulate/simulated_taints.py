"""Simulates DeviceTaintRules of manifests: the devices that they taint, and the pods that they evict."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from dra.cli.kubectl.resource_table import TableRow
from dra.cli.kubectl.simulate.simulated_migrations import without_pods
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.snapshot import Snapshot
from dra.engine.diagnosis.taint_previews import PreviewedEviction, RulePreview, preview, with_time
from dra.engine.messages.texts import singularize
from dra.model.taints import NO_EXECUTE, DeviceTaintRule


def apply_rules(
    snapshot: Snapshot, rules: Sequence[DeviceTaintRule], *, now: datetime
) -> tuple[Snapshot, tuple[RulePreview, ...]]:
    """Return the snapshot with rules applied and without the pods that they evict at once, and what each rule does.

    A rule of the manifests replaces the rule of its name; of several with one name the last counts. No pod is created
    for one that was evicted.
    """
    if not rules:
        return snapshot, ()
    cluster_state = ClusterState(snapshot)
    last = {rule.metadata.name: rule for rule in rules}
    previews = tuple(preview(cluster_state, rule, now=now) for rule in last.values())
    gone = {each.uid for found in previews for each in found.evictions if not each.seconds}
    applied = {rule.metadata.name: with_time(rule, now=now) for rule in (*snapshot.rules, *rules)}
    tainted = msgspec.structs.replace(snapshot, rules=tuple(applied.values()))
    return without_pods(tainted, (pod for pod in snapshot.pods if pod.metadata.uid in gone)), previews


def eviction_rows(previews: Iterable[RulePreview]) -> Iterator[TableRow]:
    """Yield a row for each pod that a rule would evict."""
    for found in previews:
        for each in found.evictions:
            yield _eviction_row(found, each)


def _eviction_row(rule: RulePreview, found: PreviewedEviction) -> TableRow:
    namespace, name = found.pod
    when = f"after {found.seconds} s" if found.seconds else "at once"
    replaced = f"its controller, {found.owner}, creates a new pod" if found.owner else "no controller replaces it"
    why = f"evicted {when} by rule {rule.rule} ({rule.taint}); {replaced}"
    content: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "evicted": True,
        "placed": False,
        "rule": rule.rule,
        "seconds": found.seconds,
        "node": found.node,
        "claims": [found.claim],
        "devices": [found.device],
        "owner": found.owner,
        "why": why,
    }
    cells = (namespace, name, found.node, found.device, why)
    return TableRow(name=f"pod/{name}", cells=cells, wide=(found.claim,), content=lambda: content)


def rule_texts(previews: Iterable[RulePreview]) -> Iterator[str]:
    """Yield what each rule would do, in one sentence."""
    for found in previews:
        if found.is_void:
            yield f"rule {found.rule}: selects no device: deviceSelector is missing, or has criteria that are unknown"
            continue
        everything = ", every device of every driver, since its selector is empty" if found.selects_all else ""
        yield singularize(
            f"rule {found.rule}: would taint {found.devices} devices ({found.taint}){everything}; {found.held} "
            f"{'is' if found.held == 1 else 'are'} held; {_evicted_text(found)}"
        )


def _evicted_text(found: RulePreview) -> str:
    if not found.taint.endswith(f":{NO_EXECUTE}"):
        return "no pod would be evicted"
    later = sum(bool(each.seconds) for each in found.evictions)
    now = len(found.evictions) - later
    return f"{now} pods would be evicted at once" + (f", {later} later" if later else "")
