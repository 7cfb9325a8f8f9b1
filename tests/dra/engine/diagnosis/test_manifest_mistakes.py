"""Mistakes that no API server refuses are told before a pod runs."""

import pytest

from dra.engine.diagnosis.manifest_mistakes import mistakes
from tests.dra.engine.diagnosis.cluster_states import claim, cluster_state, pod
from tests.violations import for_each_case

TEMPLATE = {"metadata": {"name": "t", "namespace": "ml", "uid": "u", "resourceVersion": "1"}}


def reserved(value, key="reserve.dra/reserved-for"):
    return claim("c", annotations={key: value})


def of(name, job="train", *, uses=True, **entry):
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
    resources = {"claims": [{"name": "r"}]} if uses else {}
    return pod(
        name,
        metadata={"ownerReferences": [owner]},
        containers=[{"name": "main", "resources": resources}],
        resourceClaims=[{"name": "r", **(entry or {"resourceClaimName": "c"})}],
    )


def told(*claims, pods=(), templates=()):
    state = cluster_state(*claims, pods=tuple(pods), templates=list(templates))
    return [*mistakes(state, pods=state.snapshot.pods, claims=state.snapshot.claims)]


@for_each_case(
    [
        pytest.param(
            told(reserved("jobs/x")), "claim ml/c: no kind jobs: write jobs.batch/x", id="a-kind-without-its-group"
        ),
        pytest.param(
            told(reserved("jobs.batch/x", "reserved.dra/reserved-for")),
            "claim ml/c: annotation reserved.dra/reserved-for has no effect: write reserve.dra/reserved-for",
            id="a-wrong-prefix",
        ),
        pytest.param(
            told(reserved("jobs.batch/x", "reserve.dra/reservedfor")),
            "claim ml/c: annotation reserve.dra/reservedfor has no effect: write reserve.dra/reserved-for",
            id="a-wrong-name",
        ),
        pytest.param(
            told(reserved("jobs.batch/other"), pods=[of("a")]),
            "claim ml/c: reserved for jobs.batch/other, but the pods that name it belong to job train",
            id="reserved-for-another-job",
        ),
        pytest.param(
            told(reserved("jobs.batch/train"), pods=[of("a"), of("b", "second")]),
            "claim ml/c: reserved for jobs.batch/train, and pods of job second use it as well: when jobs.batch/train "
            "ends, the claim is kept only until these pods end, and pods that come later may get other devices",
            id="two-jobs-on-one-claim",
        ),
        pytest.param(
            told(claim("c"), pods=[of("a", uses=False), of("b", uses=False)]),
            "pod ml/a: no container names r in resources.claims, so no container gets the device; right only for "
            "devices of the whole pod, such as network interfaces",
            id="no-container-names-the-claim",
        ),
        pytest.param(
            told(templates=[TEMPLATE], pods=[of("a", resourceClaimName="t")]),
            "pod ml/a: there is no ResourceClaim t, but a ResourceClaimTemplate of that name: write "
            "resourceClaimTemplateName",
            id="a-template-named-as-a-claim",
        ),
        pytest.param(
            told(claim("c"), pods=[of("a", resourceClaimTemplateName="c")]),
            "pod ml/a: there is no ResourceClaimTemplate c, but a ResourceClaim of that name: write resourceClaimName",
            id="a-claim-named-as-a-template",
        ),
    ]
)
def test_a_mistake_is_told_once_with_what_to_write(found, text):
    assert found == [text]


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(told(reserved("jobs.batch/train"), pods=[of("a")]), id="the-job-of-its-pods"),
        pytest.param(told(reserved("deployments.apps/web"), pods=[of("a")]), id="a-kind-whose-pods-have-another-owner"),
        pytest.param(told(reserved("widgets.example.com/w"), pods=[of("a")]), id="a-kind-of-others"),
        pytest.param(told(reserved("x", "reserve.example/for")), id="an-annotation-of-others"),
        pytest.param(told(templates=[TEMPLATE], pods=[of("a", resourceClaimTemplateName="t")]), id="a-template"),
    ],
)
def test_what_is_right_is_not_told(found):
    assert found == []
