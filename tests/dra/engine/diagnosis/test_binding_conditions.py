"""A pod whose devices have not met their binding conditions is told so, not that no scheduler has tried the pod."""

import pytest

from dra.engine.diagnosis import pods
from dra.engine.diagnosis.problem_codes import ProblemCode
from tests.dra.engine.diagnosis.cluster_states import DRIVER, claim, cluster_state, entry, pod

ATTACHED, FAILED = "example.org/attached", "example.org/failed"
SINCE = "2026-11-20T11:58:00Z"


def conditional(*conditions, listed=("a",)):
    found = claim("c", "n1/gpu-0", listed=tuple(map(entry, listed)))
    (result,) = found["status"]["allocation"]["devices"]["results"]
    result |= {"bindingConditions": [ATTACHED], "bindingFailureConditions": [FAILED]}
    device = {"driver": DRIVER, "pool": "n1", "device": "gpu-0", "conditions": list(conditions)}
    found["status"]["devices"] = [device] if conditions else None
    return found


def condition(kind, status="True", **more):
    return {"type": kind, "status": status, "lastTransitionTime": SINCE, **more}


@pytest.mark.parametrize(
    ("given", "code", "facts"),
    [
        pytest.param(
            conditional(),
            ProblemCode.AWAITS_BINDING,
            {"condition": ATTACHED, "since": "2026-11-20T11:59:00Z", "said": ""},
            id="nothing-reported-yet",
        ),
        pytest.param(
            conditional(condition(ATTACHED, "False", reason="Busy", message="the switch is busy")),
            ProblemCode.AWAITS_BINDING,
            {"condition": ATTACHED, "since": SINCE, "said": ": Busy: the switch is busy"},
            id="reported-as-false",
        ),
        pytest.param(
            conditional(condition(FAILED, reason="NoSuchCard", message="card is broken")),
            ProblemCode.BINDING_FAILED,
            {"condition": FAILED, "since": SINCE, "said": ": NoSuchCard: card is broken"},
            id="failed",
        ),
        pytest.param(
            conditional(condition(FAILED, message="x" * 30_000)),
            ProblemCode.BINDING_FAILED,
            {"condition": FAILED, "since": SINCE, "said": f": {'x' * 160}"},
            id="a-long-message",
        ),
        pytest.param(conditional(condition(ATTACHED)), ProblemCode.NOT_TRIED, {}, id="met"),
        pytest.param(conditional(listed=("other",)), ProblemCode.NOT_TRIED, {}, id="of-another-pod"),
    ],
)
def test_what_the_binding_of_a_pod_waits_for(given, code, facts):
    found = pods.explain(cluster_state(given, pods=(pod("a", "c"),)), ("ml", "a"))
    (problem,) = found.problems
    assert problem.code is code
    assert {name: problem.facts_by_name[name] for name in facts} == facts
