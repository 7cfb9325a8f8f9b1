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
    gone = {eviction.uid for effect in previews for eviction in effect.evictions if not eviction.seconds}
    applied = {rule.metadata.name: with_time(rule, now=now) for rule in (*snapshot.rules, *rules)}
    tainted = msgspec.structs.replace(snapshot, rules=tuple(applied.values()))
    return without_pods(tainted, (pod for pod in snapshot.pods if pod.metadata.uid in gone)), previews


def eviction_rows(previews: Iterable[RulePreview]) -> Iterator[TableRow]:
    """Yield a row for each pod that a rule would evict."""
    for effect in previews:
        for eviction in effect.evictions:
            yield _eviction_row(effect, eviction)


def _eviction_row(rule: RulePreview, eviction: PreviewedEviction) -> TableRow:
    namespace, name = eviction.pod
    when = f"after {eviction.seconds} s" if eviction.seconds else "at once"
    replaced = f"its controller, {eviction.owner}, creates a new pod" if eviction.owner else "no controller replaces it"
    why = f"evicted {when} by rule {rule.rule} ({rule.taint}); {replaced}"
    content: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "evicted": True,
        "placed": False,
        "rule": rule.rule,
        "seconds": eviction.seconds,
        "node": eviction.node,
        "claims": [eviction.claim],
        "devices": [eviction.device],
        "owner": eviction.owner,
        "why": why,
    }
    cells = (namespace, name, eviction.node, eviction.device, why)
    return TableRow(name=f"pod/{name}", cells=cells, wide=(eviction.claim,), content=lambda: content)


def rule_texts(previews: Iterable[RulePreview]) -> Iterator[str]:
    """Yield what each rule would do, in one sentence."""
    for effect in previews:
        if effect.is_void:
            yield f"rule {effect.rule}: selects no device: deviceSelector is missing, or has criteria that are unknown"
            continue
        everything = ", every device of every driver, since its selector is empty" if effect.selects_all else ""
        yield singularize(
            f"rule {effect.rule}: would taint {effect.devices} devices ({effect.taint}){everything}; {effect.held} "
            f"{'is' if effect.held == 1 else 'are'} held; {_evicted_text(effect)}"
        )


def _evicted_text(effect: RulePreview) -> str:
    if not effect.taint.endswith(f":{NO_EXECUTE}"):
        return "no pod would be evicted"
    later = sum(bool(eviction.seconds) for eviction in effect.evictions)
    now = len(effect.evictions) - later
    return f"{now} pods would be evicted at once" + (f", {later} later" if later else "")
