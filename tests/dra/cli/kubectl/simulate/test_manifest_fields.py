"""Fields that no API server knows are named: a manifest with one is refused, whatever the simulation shows."""

import pytest

from dra.cli.kubectl.simulate.manifest_fields import UNKNOWN_FIELDS_MAX, unknown_field_texts
from tests.dra.cli.kubectl.simulate.manifests import asking, manifest, using
from tests.violations import for_each_case

TOLERATIONS = [{"key": "unhealthy", "operator": "Exists"}]
V1 = "resource.k8s.io/v1"


def claim_with(**spec):
    found = asking("c") | {"apiVersion": V1}
    found["spec"] |= spec
    return found


def request_with(**more):
    found = claim_with()
    found["spec"]["devices"]["requests"][0] |= more
    return found


@for_each_case(
    [
        pytest.param(claim_with(), [], id="a-claim-as-it-should-be"),
        pytest.param(claim_with(tolerations=TOLERATIONS), ["spec.tolerations"], id="tolerations-of-the-whole-claim"),
        pytest.param(
            request_with(tolerations=TOLERATIONS),
            ["spec.devices.requests[0].tolerations"],
            id="tolerations-beside-exactly",
        ),
        pytest.param(claim_with(resourceClassName="gpu"), ["spec.resourceClassName"], id="the-api-of-1.30"),
        pytest.param(
            claim_with(reservedFor={"apiGroup": "batch", "resource": "jobs", "name": "train"}),
            [],
            id="the-field-of-the-kep-which-kubectl-dra-applies",
        ),
        pytest.param(
            manifest("Pod", "p", using("c") | {"resourceClaim": []}), ["spec.resourceClaim"], id="a-field-of-a-pod"
        ),
        pytest.param(
            manifest("Job", "j", {"template": {"spec": {"contianers": []}}}, version="batch/v1"),
            ["spec.template.spec.contianers"],
            id="a-field-of-the-pods-of-a-job",
        ),
        pytest.param(manifest("RayJob", "r", {"any": 1}, version="ray.io/v1"), [], id="a-kind-of-others"),
    ]
)
def test_unknown_fields_are_named(document, fields):
    texts = [*unknown_field_texts([{"kind": "List", "items": [document]}])]
    assert len(texts) == bool(fields)
    assert all(f'unknown field "{each}"' in texts[0] for each in fields)


def test_of_many_fields_some_are_named():
    (text,) = unknown_field_texts([claim_with(**{f"x{number}": 1 for number in range(30)})])
    assert text.count("unknown field") == UNKNOWN_FIELDS_MAX
    assert f" and {30 - UNKNOWN_FIELDS_MAX} more in Kubernetes 1." in text


def test_the_command_tells_before_it_places_pods(run):
    done = run(request_with(tolerations=TOLERATIONS), manifest("Pod", "p", using("c")))
    assert (done.exit_code, "1 of 1 pods would be scheduled" in done.stderr) == (0, True)
    assert 'note: resourceclaim c: unknown field "spec.devices.requests[0].tolerations" in Kubernetes 1.' in done.stderr
