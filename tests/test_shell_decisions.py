"""The shells decide nothing about fields of Kubernetes objects: `dra.engine` does, and tables test its decisions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.shell_decisions import SHELLS, decisions, kubernetes_names
from tests.violations import for_each_case

ROOT = Path(__file__).parents[1]

EXCEPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "controller/application.py": {
        "policy_from: configuration.mode": "a field of the configuration",
    },
    "controller/claim_generation.py": {
        "ClaimGeneration._read_owner: owner.kind": "selects the resource that is read",
        "ClaimGeneration._record: action.owner.kind": "selects the resource that is written",
    },
    "controller/claim_lookups.py": {
        "ClaimLookups._read: reference.is_reservation": "selects the resource that is read",
    },
    "controller/metrics.py": {
        "ClaimCollector.collect: claim.status.allocation": "the label of a count, named as in Kubernetes",
    },
    "controller/workload_informers.py": {
        "WorkloadInformers._observe_raw: workload.raw": "the size of a response, not yet decoded",
        "WorkloadInformers._evaluate_large_objects: key.kind": "selects the resource that is read",
    },
    "dra/requests/workload_reader.py": {
        "WorkloadReader.look_up: reference.group_resource": "selects the resource that is read",
        "WorkloadReader.evaluate: workload.raw": "the size of a response, not yet decoded",
    },
}
"""Conditions that stay, by file, with the reason of each."""


def test_the_shell_decides_nothing_but_what_is_listed():
    paths = sorted(path for shell in SHELLS for path in (ROOT / shell).rglob("*.py"))
    found = {(str(path.relative_to(ROOT)), each) for path in paths for each in decisions(path.read_text())}
    listed = {(path, each) for path, places in EXCEPTIONS.items() for each in places}
    new, stale = sorted(found - listed), sorted(listed - found)
    assert new == [], "decide it in dra.engine, and let the shell do what the plan says"
    assert stale == [], "gone: delete these from the list"


@for_each_case(
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
