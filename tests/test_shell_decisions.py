"""`controller` decides nothing about fields of Kubernetes objects: `dra.engine` does, and tables test its decisions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.shell_decisions import SHELL, decisions, kubernetes_names

ROOT = Path(__file__).parents[1]

EXCEPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "controller/application.py": {
        "policy_from: configuration.mode": "a field of the configuration",
        "ReasonEventRecorder.record: kind.kind": "selects the resource of an Event's subject",
        "ReasonEventRecorder.record: reason.subject.kind": "selects the resource of an Event's subject",
    },
    "controller/claim_generation.py": {
        "ClaimGenerationLoop._read_owner: owner.kind": "selects the resource that is read",
        "ClaimGenerationLoop._record: owner.kind": "selects the resource that is written",
    },
    "controller/migration/loop.py": {
        "MigrationLoop._record_event: event.type": "an Event to be recorded",
    },
}
"""Conditions that stay, by file, with the reason of each."""

REMAINING: Final[Mapping[str, Sequence[str]]] = {
    "controller/claim_generation.py": (
        "ClaimGenerationLoop._create: action.template",
        "ClaimGenerationLoop._create: template.is_reduced",
        "ClaimGenerationLoop._is_refused: each.template",
        "ClaimGenerationLoop._is_refused: refused.template",
    ),
    "controller/claim_patcher.py": (
        "ClaimPatcher._add_entries: entry.resource",
        "ClaimPatcher._add_entries: write.entries",
    ),
    "controller/claim_writer.py": (
        "ClaimWriter._is_ungated: found.gates",
        "ClaimWriter._look_up_workload: action.reference.is_reservation",
        "_only_removes_entries: write.entries",
        "_is_as_expected: one.annotations",
        "_is_as_expected: one.finalizers",
        "_is_as_expected: found.status",
        "_is_as_expected: other.annotations",
        "_is_as_expected: other.finalizers",
        "_is_as_expected: expected.status",
    ),
    "controller/deallocation_check.py": (
        "DeallocationCheck.check: pod.bound_or_nominated",
        "DeallocationCheck._check_nodes: node.ready",
        "_is_stale_nomination: pod.spec.node_name",
        "_is_stale_nomination: pod.status.nominated_node_name",
    ),
    "controller/eviction.py": (
        "Evictor._decide: claim.status.allocation",
        "Evictor._evict: pod.terminal",
        "Evictor._evict: pod.metadata.deleting",
        "Evictor._set_disruption_condition: found.status",
        "Evictor._set_disruption_condition: found.reason",
    ),
    "controller/metrics.py": ("ClaimCollector.collect: claim.status.allocation",),
    "controller/migration/evictor.py": (
        "Evictor.evict: found.pod.metadata.deleting",
        "Evictor.look_at_pod: found.content",
        "Evictor._is_held: reservation.status.phase",
        "Evictor._is_held: reservation.metadata.deletion_timestamp",
        "Evictor._is_held: reservation.status.node_name",
        "Evictor._is_held: found.pod.spec.node_name",
        "Evictor._is_held: found.content",
    ),
    "controller/migration/job_cache.py": (
        "JobCache.live: job.status.phase",
        "JobCache.observe_job: found.job.status.phase",
        "JobCache._update_used: found.status.current_owners",
        "JobCache._find_bound_pod: job.status.pod_ref",
        "JobCache._find_bound_pod: job.status.pod_ref.name",
        "JobCache.view: job.spec.pod_ref.uid",
        "JobCache._sibling: job.spec.pod_ref.uid",
        "JobCache._sibling: pod.metadata.deleting",
        "JobCache._sibling: pod.terminal",
        "JobCache._is_recorded: each.status.pod_ref",
        "JobCache._is_recorded: each.status.pod_ref.uid",
        "JobCache.arbitration_view: each.job.metadata.deletion_timestamp",
        "JobCache.count_by_phase: status.phase",
        "_is_waiting: job.metadata.deletion_timestamp",
        "_is_waiting: job.spec.paused",
        "_is_waiting: job.status.phase",
        "_reservation_name: job.spec.reservation_options",
    ),
    "controller/migration/loop.py": (
        "MigrationLoop._count_end: after.status.phase",
        "MigrationLoop._count_end: before.status.phase",
        "MigrationLoop._count_end: after.metadata.creation_timestamp",
        "MigrationLoop._read_pod: job.spec.pod_ref.namespace",
        "MigrationLoop._read_pod: job.spec.pod_ref.name",
    ),
    "controller/migration/workload_replicas.py": ("WorkloadReplicas._read_scale: found.spec.replicas",),
    "controller/placement_reader.py": (
        "PlacementReader._answer: claim.status.allocation",
        "PlacementReader._observe_failure: claim.status.allocation",
        "PlacementReader._read_snapshot: host.ready",
        "PlacementReader._read_snapshot: host.metadata.deleting",
        "PlacementReader._charge_pods: pod.terminal",
        "PlacementReader._charge_pods: pod.metadata.deleting",
    ),
    "controller/pod_reports.py": ("PodReporter._is_written: pod.metadata.annotations",),
    "controller/translation/request_notices.py": ("RequestNotices._observe: meta.creation_timestamp",),
    "controller/unprepared_pods.py": ("UnpreparedPodEvictor.claim_changed: known.reason",),
    "controller/workload_informers.py": (
        "WorkloadInformers.look_up: reference.group_resource",
        "WorkloadInformers._observe_raw: found.raw",
        "WorkloadInformers._evaluate: found.raw",
        "WorkloadInformers._evaluate_large_objects: key.kind",
    ),
}
"""Decisions that are to move to `dra.engine`, by file; the list only shrinks."""


def test_the_shell_decides_nothing_but_what_is_listed():
    paths = sorted((ROOT / SHELL).rglob("*.py"))
    found = {(str(path.relative_to(ROOT)), each) for path in paths for each in decisions(path.read_text())}
    listed = {(path, each) for known in (EXCEPTIONS, REMAINING) for path, places in known.items() for each in places}
    new, stale = sorted(found - listed), sorted(listed - found)
    assert new == [], "decide it in dra.engine, and let the shell do what the plan says"
    assert stale == [], "gone: delete these from the list"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        pytest.param("if pod.spec.node_name: ...", ["pod.spec.node_name"], id="if"),
        pytest.param("while not pod.terminal: ...", ["pod.terminal"], id="a-property-in-while"),
        pytest.param("return 1 if view.claim.status.allocation else 2", ["view.claim.status.allocation"], id="ternary"),
        pytest.param("return [p for p in pods if p.gates]", ["p.gates"], id="comprehension"),
        pytest.param("return pod.status.phase == 'Failed'", ["pod.status.phase"], id="comparison"),
        pytest.param("return ready and pod.terminal", ["pod.terminal"], id="and"),
        pytest.param("return find(pod).spec.priority or 0", ["find(pod).spec.priority"], id="or-of-an-answer"),
        pytest.param("if len(pod.spec.containers) > 1: ...", ["pod.spec.containers"], id="argument"),
        pytest.param("match job.spec.mode:\n    case 1: ...", ["job.spec.mode"], id="subject-of-match"),
        pytest.param("match x:\n    case Pod(spec=None): ...", ["Pod.spec"], id="class-pattern"),
        pytest.param("match x:\n    case y if y.terminal: ...", ["y.terminal"], id="guard"),
        pytest.param("phase = job.status.phase\n  if phase: ...", ["job.status.phase"], id="local-variable"),
        pytest.param("if self._node.status.ready: ...", ["self._node.status.ready"], id="path-from-self"),
        pytest.param("if pod.metadata.uid != uid: ...", [], id="what-a-request-needs"),
        pytest.param("match x:\n    case Pod(spec=spec): ...", [], id="pattern-that-only-names"),
        pytest.param("if self.taints: ...", [], id="attribute-of-self"),
        pytest.param("if phase is Phase.ready: ...", [], id="constant"),
        pytest.param("try: ...\n  except ApiError as e:\n    if e.reason: ...", [], id="caught-error"),
        pytest.param("return pod.spec.node_name", [], id="no-condition"),
        pytest.param("if is_over(pod): ...", [], id="decided-elsewhere"),
    ],
)
def test_conditions_on_fields_are_found(body, found):
    assert decisions(f"def f(self, pod):\n  {body}") == [f"f: {each}" for each in found]


def test_a_decision_is_named_by_its_place():
    source = "class A:\n  def f(self):\n    def g(pod):\n      if pod.terminal: ...\nB = [n for n in C if n.spec]"
    assert decisions(source) == ["A.f.g: pod.terminal", "module: n.spec"]


def test_names_are_those_of_kinds_and_of_what_lies_in_them():
    names = kubernetes_names()
    assert {"Pod", "PodSpec", "Toleration", "ResourceClaim", "Reservation", "PodMigrationJob"} <= names.kinds
    assert {"node_name", "tolerations", "allocation", "terminal", "allocate_once", "pod_ref"} <= names.fields
    assert not names.fields & {"namespace", "uid", "leader_election"}
