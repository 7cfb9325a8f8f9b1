"""What tokens of dra-reserve are good for: claims of the controller, Events of all accounts, and bindings."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dra.engine.claims.actions import Deallocate, PatchMetadata
from dra.engine.claims.patches import merge_patch_of
from dra.model.meta import OwnerReference
from tests.deploy.admission_requests import CONTROLLER, EXTENDER, PLUGIN, Json, asked, changed
from tests.deploy.judging import judge, policy
from tests.violations import combinations, for_each_case, named

CLAIMS = policy("kustomize/base/own-writes.yaml", "controller-claims.reserve.dra")
POD = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
GROUP = {**POD, "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
RESERVATION = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation", "name": "r", "uid": "v"}
GENERATED = {"resource.kubernetes.io/pod-claim-name": "gpu"}
PROTECTION = "resource.kubernetes.io/delete-protection"


def claim(*owners: Json, **paths: Any) -> Json:
    made = {
        "metadata": {
            "name": "p",
            "labels": {"app": "a"},
            "annotations": {"other": "x"},
            "finalizers": [PROTECTION, "example.com/x"],
            "ownerReferences": [*owners],
        },
        "spec": {"devices": {"requests": [{"name": "gpu"}]}},
        "status": {"allocation": {"devices": {}}, "devices": [{"device": "a"}], "reservedFor": [{"uid": "u"}]},
    }
    return changed(made, **paths)


def merged(old: Json, patch: Json) -> Json:
    """Return a claim after a merge patch."""
    made = copy.deepcopy(old)
    for section, fields in patch.items():
        for name, value in fields.items():
            if value is None:
                made[section].pop(name, None)
            elif isinstance(value, dict):
                made[section][name] = {
                    k: v for k, v in {**made[section].get(name, {}), **value}.items() if v is not None
                }
            else:
                made[section][name] = [*value]
    return made


def write(operation: str, old: Json | None, new: Json | None, *, part: str = "", user: str = CONTROLLER):
    return judge(CLAIMS, asked(operation, part=part, user=user), obj=new, old=old)


KEY = ("ml", "p")
MARK = PatchMetadata(claim=KEY, annotations=(("reserve.dra/resolved-uid", "u"),))
FREE = PatchMetadata(claim=KEY, annotations=(), finalizers=("example.com/x",))
HAND_OVER = PatchMetadata(
    claim=KEY,
    annotations=tuple(GENERATED.items()),
    owners=(
        OwnerReference(api_version="v1", kind="Pod", name="p", uid="u", controller=True),
        OwnerReference(api_version=RESERVATION["apiVersion"], kind="Reservation", name="r", uid="v"),
    ),
)
BACK = PatchMetadata(
    claim=KEY,
    annotations=((*GENERATED, None),),
    owners=(OwnerReference(api_version=RESERVATION["apiVersion"], kind="Reservation", name="r", uid="v"),),
)
NEW = {"metadata__annotations": GENERATED, "metadata__finalizers": None, "status": None}


@for_each_case(
    [
        pytest.param("UPDATE", "", claim(), merged(claim(), merge_patch_of(MARK)), id="annotates"),
        pytest.param("UPDATE", "", claim(), merged(claim(), merge_patch_of(FREE)), id="takes-the-finalizer-off"),
        pytest.param(
            "UPDATE", "", claim(RESERVATION), merged(claim(RESERVATION), merge_patch_of(HAND_OVER)), id="hands-over"
        ),
        pytest.param(
            "UPDATE",
            "",
            claim(POD, RESERVATION),
            merged(claim(POD, RESERVATION), merge_patch_of(BACK)),
            id="takes-back",
        ),
        pytest.param(
            "UPDATE",
            "status",
            claim(),
            merged(claim(), merge_patch_of(Deallocate(claim=KEY, confirm=frozenset()))),
            id="deallocates",
        ),
        pytest.param("UPDATE", "status", claim(), claim(status__reservedFor=[{"uid": "w"}]), id="lists"),
        pytest.param("CREATE", "", None, claim(POD, **NEW), id="generates-for-a-pod"),
        pytest.param("CREATE", "", None, claim(GROUP, **NEW), id="generates-for-a-group"),
        pytest.param("CREATE", "", None, claim(POD, RESERVATION, **NEW), id="generates-for-a-reservation"),
        pytest.param("DELETE", "", claim(POD), None, id="deletes-that-of-a-pod"),
        pytest.param("DELETE", "", claim(GROUP), None, id="deletes-that-of-a-group"),
        pytest.param("DELETE", "", claim(RESERVATION), None, id="deletes-that-of-a-reservation"),
    ]
)
def test_the_controller_does_its_work_with_claims(operation, part, old, new):
    assert write(operation, old, new, part=part) == (True, "")


@for_each_case(
    [
        pytest.param("CREATE", "", None, claim(**NEW), "it generates claims", id="makes-a-claim"),
        pytest.param("CREATE", "", None, claim(RESERVATION, **NEW), "it generates", id="makes-one-of-no-pod"),
        pytest.param("CREATE", "", None, claim(POD), "it generates", id="makes-one-of-no-entry"),
        pytest.param(
            "CREATE",
            "",
            None,
            claim(POD, **NEW | {"metadata__finalizers": ["a/b"]}),
            "it generates",
            id="holds-it-back",
        ),
        pytest.param("DELETE", "", claim(), None, "it deletes claims that were generated", id="deletes-a-persons"),
        pytest.param(
            "DELETE", "", claim({**POD, "kind": "Job", "apiVersion": "batch/v1"}), None, "it deletes", id="of-a-job"
        ),
        pytest.param("UPDATE", "", claim(), claim(spec__devices={}), "it writes annotations", id="other-devices"),
        pytest.param("UPDATE", "", claim(), claim(metadata__labels={}), "it writes annotations", id="relabels"),
        pytest.param("UPDATE", "", claim(), claim(metadata__ofTomorrow=1), "it writes annotations", id="a-new-field"),
        pytest.param(
            "UPDATE", "", claim(), claim(metadata__annotations={"other": "y"}), "it writes", id="annotates-for-others"
        ),
        pytest.param(
            "UPDATE", "", claim(), claim(metadata__finalizers=[PROTECTION]), "it writes", id="takes-anothers-finalizer"
        ),
        pytest.param(
            "UPDATE",
            "",
            claim(),
            claim(metadata__finalizers=[PROTECTION, "example.com/x", "a/b"]),
            "it writes",
            id="holds",
        ),
        pytest.param("UPDATE", "", claim(), claim(POD), "it writes annotations", id="gives-a-persons-to-a-pod"),
        pytest.param("UPDATE", "", claim(), claim(RESERVATION), "it writes annotations", id="and-to-a-reservation"),
        pytest.param("UPDATE", "", claim(POD), claim(), "it writes annotations", id="takes-one-from-a-pod"),
        pytest.param(
            "UPDATE",
            "status",
            claim(),
            claim(status__allocation={"devices": {"a": 1}}),
            "of the status",
            id="allocates",
        ),
        pytest.param("UPDATE", "status", claim(), claim(status__devices=[]), "of the status", id="reports-devices"),
        pytest.param("UPDATE", "status", claim(), claim(status__ofTomorrow=1), "of the status", id="a-new-status"),
    ],
)
def test_a_token_of_the_controller_is_good_for_nothing_else(operation, part, old, new, text):
    passed, said = write(operation, old, new, part=part)
    assert not passed
    assert said.startswith(f"the controller may not {operation} claim ml/p: ")
    assert text in said
    assert write(operation, old, new, part=part, user="kubelet")[0], "others are not limited"


REPORTS = policy("kustomize/base/own-writes.yaml", "own-reports.reserve.dra")
OF_PLUGINS = policy("kubelet-plugin/own-events.yaml")


def event(**paths: Any) -> Json:
    made = {
        "metadata": {"name": "e", "namespace": "ml"},
        "eventTime": "2026-11-28T09:00:00.000000Z",
        "reportingController": "reserve.dra/controller",
        "reportingInstance": "i",
        "action": "a",
        "reason": "r",
        "note": "n",
        "type": "Normal",
        "regarding": {"kind": "Node", "name": "n1"},
        "series": {"count": 2},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
    }
    return changed(made, **paths)


@for_each_case(
    combinations(
        [
            pytest.param({}, "events.k8s.io", True, id="as-it-does"),
            pytest.param({"reportingController": "kubelet"}, "events.k8s.io", False, id="as-somebody-else"),
            pytest.param({"related": {"kind": "Pod", "name": "p"}}, "events.k8s.io", False, id="about-two-objects"),
            pytest.param({"deprecatedSource": {"component": "kubelet"}}, "events.k8s.io", False, id="in-the-old-words"),
            pytest.param({"deprecatedCount": 7}, "events.k8s.io", False, id="counts-in-the-old-words"),
            pytest.param({"metadata__finalizers": ["a/b"]}, "events.k8s.io", False, id="for-ever"),
            pytest.param({}, "", False, id="in-the-old-form"),
        ],
        named([False, True], ["controller", "plugin"]),
    )
)
def test_events_are_posted_in_ones_own_name_about_one_object(changes, group, passes, plugin):
    request = {**asked("CREATE", user=PLUGIN if plugin else CONTROLLER), "resource": {"group": group}}
    request["userInfo"]["extra"] = {"authentication.kubernetes.io/node-name": ["n1"]}
    assert judge(OF_PLUGINS if plugin else REPORTS, request, obj=event(**changes))[0] is passes


BINDINGS = policy("reservations/own-writes.yaml", "extender-bindings.reserve.dra")
ALLOCATED = {"scheduling.koordinator.sh/reservation-allocated": "{}"}


def binding(**paths: Any) -> Json:
    made = {"metadata": {"name": "p", "uid": "u"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "n"}}
    return changed(made, **paths)


@for_each_case(
    [
        pytest.param(binding(), True, id="binds"),
        pytest.param(binding(metadata__annotations=ALLOCATED), True, id="names-the-reservation"),
        pytest.param(
            changed(binding(), metadata__labels={"topology.kubernetes.io/zone": "a"}), True, id="topology-labels"
        ),
        pytest.param(binding(metadata__annotations={"example.com/x": "y"}), False, id="annotates-for-others"),
        pytest.param(binding(metadata__labels={"app": "web"}), False, id="labels"),
        pytest.param(binding(metadata__uid=None), False, id="any-pod-of-the-name"),
        pytest.param(binding(metadata__finalizers=["a/b"]), False, id="holds-it-back"),
        pytest.param(binding(target__kind="Pod"), False, id="to-another-kind"),
    ]
)
def test_a_token_of_the_extender_binds_and_writes_nothing_else_with_it(made, passes):
    request = asked("CREATE", part="binding", user=EXTENDER)
    assert judge(BINDINGS, request, obj=made)[0] is passes
    assert judge(BINDINGS, {**request, "userInfo": {"username": "kube-scheduler"}}, obj=made)[0]
