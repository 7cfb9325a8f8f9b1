"""Each gate of ``skipEvictionGates`` switches off its own rule or limit, and no other."""

import pytest

from dra.api.descheduler.migration_controller_args import EvictionGate
from dra.engine.migration.arbitration import Outcome, arbitrate
from tests.dra.engine.migration.examples import NOW, job, limits, pod, view
from tests.violations import for_each_case

BEGUN = {"passed": True, "phase": "Running"}
VOLUME = {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}
LOCAL = {"volumes": [{"emptyDir": {}}]}


def beside(**other):
    """Return pods mine and other of one workload, with a job for mine; the job of other has begun."""
    return view([job("mine"), job("other", **BEGUN)], [pod("mine"), pod("other", **other)], replicas={"web": 9})


def alone(*, by="", mode="", **mine):
    return view([job("mine", by=by, mode=mode)], [pod("mine", **mine)], replicas={"web": 9})


CASES = {
    EvictionGate.MAX_MIGRATING_GLOBALLY: (beside(node="n2"), {"maxMigratingGlobally": 1}),
    EvictionGate.MAX_MIGRATING_PER_NODE: (beside(), {"maxMigratingPerNode": 1}),
    EvictionGate.MAX_MIGRATING_PER_NAMESPACE: (beside(node="n2"), {"maxMigratingPerNamespace": 1}),
    EvictionGate.MAX_MIGRATING_PER_WORKLOAD: (beside(node="n2"), {"maxMigratingPerWorkload": 1}),
    EvictionGate.MAX_UNAVAILABLE_PER_WORKLOAD: (beside(node="n2"), {"maxUnavailablePerWorkload": 1}),
    EvictionGate.EXPECTED_REPLICAS: (
        alone(by="koord-descheduler"),
        {"maxMigratingPerWorkload": 9, "skipCheckExpectedReplicas": False},
    ),
    EvictionGate.PVC: (alone(spec=VOLUME), {"ignorePvcPods": True}),
    EvictionGate.BARE_PODS: (alone(owner="", mode="EvictDirectly"), {}),
    EvictionGate.LOCAL_STORAGE: (alone(spec=LOCAL), {}),
    EvictionGate.SYSTEM_CRITICAL: (alone(spec={"priority": 2_000_000_000}), {}),
    EvictionGate.PRIORITY_THRESHOLD: (alone(spec={"priority": 10}), {"priorityThreshold": 10}),
    EvictionGate.LABEL_SELECTOR: (alone(), {"labelSelector": {"app": "db"}}),
    EvictionGate.NAMESPACES: (alone(), {"namespaces": {"exclude": ["ns"]}}),
}
"""Gate → a job that its rule keeps from passing, and the configuration."""


def passes(found, args, *gates):
    (verdict,) = arbitrate(found, args=limits(**args, skipEvictionGates=list(gates)), now=NOW)
    return verdict.outcome is Outcome.PASSED


@for_each_case(CASES)
def test_a_gate_opens_what_it_names(gate):
    found, args = CASES[gate]
    assert not passes(found, args)
    assert passes(found, args, gate)


@for_each_case(CASES)
def test_all_other_gates_together_do_not_open_it(gate):
    found, args = CASES[gate]
    assert not passes(found, args, *(each for each in EvictionGate if each is not gate))


@pytest.mark.parametrize(
    ("found", "args"),
    [
        pytest.param(alone(metadata={"deletionTimestamp": "2026-11-24T12:00:00Z"}), {}, id="terminating"),
        pytest.param(alone(kind="DaemonSet"), {}, id="daemonset"),
        pytest.param(alone(metadata={"annotations": {"kubernetes.io/config.mirror": "1a"}}), {}, id="static"),
        pytest.param(
            alone(metadata={"annotations": {"scheduling.koordinator.sh/eviction-cost": "2147483647"}}), {}, id="cost"
        ),
        pytest.param(
            beside(node="n2"), {"objectLimiters": {"workload": {"duration": "1m", "maxMigrating": 1}}}, id="rate"
        ),
    ],
)
def test_rules_without_a_gate_hold(found, args):
    assert not passes(found, args, *EvictionGate)
