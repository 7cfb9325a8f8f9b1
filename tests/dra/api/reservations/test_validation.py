"""Templates are free-form: whatever stands there is refused by name, and stops nobody."""

from copy import deepcopy

import msgspec
import pytest

from dra.api.reservations.model import parse_reservation
from dra.api.reservations.validation import MAX_DEPTH, validate_template
from dra.engine.claims.claim_holders import ClaimHolders
from dra.engine.reservations import lifecycle, reservation_info
from dra.engine.reservations.actions import CreatePlaceholder, PatchReservationStatus
from dra.engine.reservations.view import ReservationPolicy, ReservationView
from dra.model.meta import Uid
from tests.dra.api.reservations.manifests import manifest
from tests.dra.engine.reservations.examples import NOW, at
from tests.violations import for_each, for_each_case

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TEMPLATE = {
    "namespace": "default",
    "metadata": {"namespace": "ml", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "nodeName": "n1",
        "schedulerName": "koord-scheduler",
        "priority": 5,
        "nodeSelector": {"zone": "a"},
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
                        }
                    ]
                }
            }
        },
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "priorityClassName": "high",
        "preemptionPolicy": "Never",
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
        "overhead": {"cpu": "1m"},
        "resources": {"requests": {"cpu": "1"}},
        "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}],
    },
}


def deep(levels):
    found = "x"
    for _ in range(levels):
        found = {"a": found}
    return found


def paths(given, path=()):
    if path:
        yield path
    items = given.items() if isinstance(given, dict) else enumerate(given) if isinstance(given, list) else ()
    for key, each in items:
        yield from paths(each, (*path, key))


def with_(path, junk):
    found = deepcopy(TEMPLATE)
    at = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = junk
    return found


JUNK = (None, True, 0, -1, 1.5, "", "a b/c", [], ["x"], [None], {}, {"x": "y"}, {"": None}, deep(80))


@for_each(list(paths(TEMPLATE)), name=lambda path: ".".join(map(str, path)))
def test_whatever_stands_in_a_template_is_decided_about(path):
    for junk in JUNK:
        whole = manifest()
        whole["metadata"] |= {"uid": "uid-demo", "creationTimestamp": "2027-01-15T08:00:00Z"}
        whole["spec"]["template"] = with_(path, junk)
        found = parse_reservation(whole)
        ClaimHolders().observe(Uid("r"), found)
        plan = lifecycle.decide(
            ReservationView(reservation=found, policy=ReservationPolicy(supports_claims=True)), at(NOW)
        )
        told = [each for each in plan.actions if isinstance(each, PatchReservationStatus)]
        placed = [each for each in plan.actions if isinstance(each, CreatePlaceholder)]
        assert len(told) + len(placed) == 1, junk
        assert bool(told) == bool(reservation_info.from_reservation(found).parse_error), junk
        for each in placed:
            msgspec.json.encode(each.manifest)
            assert isinstance(each.manifest["metadata"]["namespace"], str)


@for_each_case(
    [
        pytest.param(
            ("spec", "affinity"),
            deep(MAX_DEPTH),
            "spec.template.spec.affinity.a.a.a…: is nested more than 64 levels deep, more than any pod; create a new",
            id="deep",
        ),
        pytest.param(("metadata",), [], "spec.template.metadata: must be an object, as in a Pod", id="metadata"),
        pytest.param(("metadata", "labels"), "a", "spec.template.metadata.labels: must be an object", id="labels"),
        pytest.param(("namespace",), "A/b", "spec.template.namespace: 'A/b' is not a valid", id="namespace"),
        pytest.param(("spec", "nodeName"), 5, "spec.template.spec.nodeName: must be a string", id="node"),
        pytest.param(("spec", "priority"), True, "spec.template.spec.priority: must be an integer", id="priority"),
        pytest.param(("spec", "tolerations"), {}, "spec.template.spec.tolerations: must be a list", id="tolerations"),
        pytest.param(
            ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms", 0),
            "x",
            f"spec.template.spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]: must be an object",
            id="term",
        ),
    ]
)
def test_what_cannot_be_used_is_told_with_its_field(path, junk, told):
    (fault,) = validate_template(with_(path, junk))
    assert fault.startswith(told)


@pytest.mark.parametrize("template", [TEMPLATE, {"spec": {"containers": []}}, {}, with_(("x",), deep(MAX_DEPTH - 1))])
def test_what_can_be_used_is_not_complained_about(template):
    assert list(validate_template(template)) == []
