"""ResourceClaims and their templates, refused as the real server refuses them."""

import pytest

from dra.model.releases import Release
from tests.localplane.kinds.registry_client import RegistryClient, refused
from tests.violations import for_each_case

CLASS = "gpu.example.com"
NAMES = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
JOB = {"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": "1"}
EXACTLY = "spec.devices.requests[0].exactly"
ONE_KIND = "exactly one of `exactly` or `firstAvailable` is required"


def claim(*requests, name="c", **spec):
    devices = {"requests": list(requests) or [exactly()]} | spec
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": {"devices": devices}}


def exactly(name="g", **fields):
    return {"name": name, "exactly": {"deviceClassName": CLASS} | fields}


def result(device="gpu-0", request="g", **fields):
    return {"request": request, "driver": CLASS, "pool": "n1", "device": device} | fields


def allocation(*results, **fields):
    return {"devices": {"results": list(results) or [result()]}} | fields


def pod_entry(name="p1", uid="u1"):
    return {"resource": "pods", "name": name, "uid": uid}


def test_a_claim_asks_for_one_device_and_has_a_status():
    made = RegistryClient().create(claim())
    assert made["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": CLASS,
        "allocationMode": "ExactCount",
        "count": 1,
    }
    assert made["status"] == {}
    assert "generation" not in made["metadata"]


CEL = [{"cel": {"expression": "device.driver =="}}]


@for_each_case(
    [
        pytest.param(claim(exactly(count=2, allocationMode="ExactCount")), [], id="two-devices"),
        pytest.param(
            claim({"name": "g"}),
            [f"spec.devices.requests[0]: Required value: {ONE_KIND}"],
            id="neither-kind-of-request",
        ),
        pytest.param(
            claim({"firstAvailable": [{"name": "a", "deviceClassName": CLASS}]} | exactly()),
            [f"spec.devices.requests[0]: Invalid value: null: {ONE_KIND}, but multiple fields are set"],
            id="both-kinds-of-request",
        ),
        pytest.param(
            claim({"name": "g", "exactly": {}}),
            [f"{EXACTLY}.deviceClassName: Required value"],
            id="no-class",
        ),
        pytest.param(
            claim(exactly(allocationMode="All", count=1)),
            [f"{EXACTLY}.count: Invalid value: 1: must not be specified when allocationMode is 'All'"],
            id="count-of-all",
        ),
        pytest.param(
            claim(exactly(count=-1)),
            [f"{EXACTLY}.count: Invalid value: -1: must be greater than zero"],
            id="negative-count",
        ),
        pytest.param(
            claim(exactly(allocationMode="Some")),
            [(f'{EXACTLY}.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"')],
            id="unknown-mode",
        ),
        pytest.param(
            claim(exactly(), exactly()), ['spec.devices.requests[1]: Duplicate value: "g"'], id="two-of-a-name"
        ),
        pytest.param(
            claim(*(exactly(f"r{i}") for i in range(33))),
            ["spec.devices.requests: Too many: 33: must have at most 32 items"],
            id="too-many-requests",
        ),
        pytest.param(
            claim(exactly(tolerations=[{"operator": "Exists", "value": "x"}])),
            [(f'{EXACTLY}.tolerations[0].value: Invalid value: "x": must be empty for operator `Exists`')],
            id="toleration-of-a-value",
        ),
        pytest.param(
            claim(constraints=[{"requests": ["h"], "matchAttribute": "example.com/a"}]),
            [f'spec.devices.constraints[0].requests[0]: Invalid value: "h": {NAMES}'],
            id="constraint-on-no-request",
        ),
        pytest.param(
            claim(constraints=[{"matchAttribute": "a"}]),
            [
                (
                    'spec.devices.constraints[0].matchAttribute: Invalid value: "a": a fully qualified name must be '
                    "a domain and a name separated by a slash"
                )
            ],
            id="attribute-without-domain",
        ),
        pytest.param(
            claim(config=[{"requests": ["g"], "opaque": {"driver": CLASS, "parameters": []}}]),
            ['spec.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object'],
            id="parameters-that-are-no-object",
        ),
        pytest.param(
            claim(config=[{}]), ["spec.devices.config[0].opaque: Required value"], id="configuration-of-nobody"
        ),
        pytest.param(
            claim(exactly(selectors=[{}])),
            [f"{EXACTLY}.selectors[0].cel: Required value"],
            id="selector-of-nothing",
        ),
        pytest.param(
            claim(exactly(selectors=[{"cel": {"expression": "x" * 10241}}])),
            [(f"{EXACTLY}.selectors[0].cel.expression: Too long: may not be more than 10240 bytes")],
            id="long-selector",
        ),
        pytest.param(
            claim(exactly(adminAccess=True)),
            [
                (
                    "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the"
                    " `resource.kubernetes.io/admin-access: true` label on the containing namespace"
                )
            ],
            id="admin-access",
        ),
    ],
)
def test_what_a_claim_may_ask_for(obj, causes):
    assert refused(RegistryClient().create, obj) == causes


def test_a_selector_that_does_not_compile_is_refused():
    (cause,) = refused(RegistryClient().create, claim(exactly(selectors=CEL)))
    path = f"{EXACTLY}.selectors[0].cel.expression"
    assert cause.startswith(f'{path}: Invalid value: "device.driver ==": compilation failed: ')


def test_the_spec_is_immutable():
    writing = RegistryClient(Release.V1_36)
    writing.create(claim())

    def drop(obj):
        obj["spec"]["devices"]["requests"] = []

    assert refused(writing.update, claim(), drop) == [
        'spec: Invalid value: {"devices":{"requests":[]}}: field is immutable'
    ]


def test_an_allocation_is_immutable():
    writing = RegistryClient(Release.V1_36)
    writing.create(claim())
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    given = allocation(nodeSelector={"nodeSelectorTerms": terms}, allocationTimestamp="2026-11-20T16:03:03Z")
    writing.update(claim(), status(allocation=given), "status")

    def other(obj):
        obj["status"]["allocation"]["devices"]["results"] = [result("gpu-1")]

    (cause,) = refused(writing.update, claim(), other, "status")
    assert cause.startswith('status.allocation: Invalid value: {"devices":{"results":[{"request":"g",')
    assert cause.endswith(": field is immutable")


def test_generated_validation_refuses_the_same_in_words_of_its_own():
    """Of 1.37 (apimachinery/pkg/api/validate): it shows no value of what may not change, and a duplicate as a whole."""
    writing = RegistryClient(Release.V1_37)
    writing.create(claim())
    writing.update(claim(), status(allocation=allocation()), "status")
    spec = refused(writing.update, claim(), lambda obj: obj["spec"]["devices"].update(requests=[]))
    given = refused(writing.update, claim(), status(allocation=allocation(result("gpu-1"))), "status")
    assert spec == ["spec: Invalid value: null: field is immutable"]
    assert given == ["status.allocation: Invalid value: null: field cannot be modified once set"]


def test_a_duplicate_was_shown_by_its_uid_before_generated_validation():
    writing = RegistryClient(Release.V1_36)
    writing.create(claim())
    twice = status(allocation=allocation(), reservedFor=[pod_entry(), pod_entry("p2")])
    assert refused(writing.update, claim(), twice, "status") == ['status.reservedFor[1]: Duplicate value: "u1"']


def status(**fields):
    def mutate(obj):
        obj["status"] = {**obj.get("status", {}), **fields}

    return mutate


UNALLOCATED = "status.reservedFor: Forbidden: may not be specified when `allocated` is not set"


@for_each_case(
    [
        pytest.param({"reservedFor": [pod_entry()]}, [UNALLOCATED], id="list-without-allocation"),
        pytest.param({"allocation": allocation(), "reservedFor": [pod_entry()]}, [], id="allocated-and-reserved"),
        pytest.param(
            {
                "allocation": allocation(),
                "reservedFor": [{"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": "1"}],
            },
            [],
            id="any-kind-of-consumer",
        ),
        pytest.param(
            {"allocation": allocation(), "reservedFor": [{}]},
            [
                "status.reservedFor[0].resource: Required value",
                "status.reservedFor[0].name: Required value",
                "status.reservedFor[0].uid: Required value",
            ],
            id="empty-entry",
        ),
        pytest.param(
            {"allocation": allocation(), "reservedFor": [pod_entry(), pod_entry("p2")]},
            ['status.reservedFor[1]: Duplicate value: {"resource":"pods","name":"p2","uid":"u1"}'],
            id="uid-twice",
        ),
        pytest.param(
            {"allocation": allocation(), "reservedFor": [pod_entry(uid=f"{i}") for i in range(257)]},
            ["status.reservedFor: Too many: 257: must have at most 256 items"],
            id="257-consumers",
        ),
        pytest.param(
            {"allocation": allocation(result(request="h"))},
            [f'status.allocation.devices.results[0].request: Invalid value: "h": {NAMES}'],
            id="result-of-no-request",
        ),
        pytest.param(
            {"allocation": allocation(*(result(f"gpu-{i}") for i in range(33)))},
            ["status.allocation.devices.results: Too many: 33: must have at most 32 items"],
            id="33-results",
        ),
        pytest.param(
            {"allocation": allocation(nodeSelector={})},
            [
                (
                    "status.allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node "
                    "selector term"
                )
            ],
            id="selector-of-no-node",
        ),
        pytest.param(
            {"allocation": allocation(), "devices": [result("gpu-9")]},
            [
                (
                    'status.devices[0]: Invalid value: {"Driver":"gpu.example.com","Pool":"n1","Device":"gpu-9",'
                    '"ShareID":null}: must be an allocated device in the claim'
                )
            ],
            id="status-of-a-foreign-device",
        ),
    ]
)
def test_what_a_status_may_say(fields, causes):
    writing = RegistryClient()
    writing.create(claim())
    assert refused(writing.update, claim(), status(**fields), "status") == causes


def test_a_status_write_changes_nothing_else():
    writing = RegistryClient()
    made = writing.create(claim())

    def mutate(obj):
        obj["metadata"]["labels"] = {"a": "b"}
        obj["metadata"]["finalizers"] = ["example.com/f"]
        obj["spec"] = {}
        obj["status"] = {"allocation": allocation()}

    changed = writing.update(claim(), mutate, "status")
    assert {**changed["metadata"], "resourceVersion": ""} == {**made["metadata"], "resourceVersion": ""}
    assert changed["spec"] == made["spec"]


def test_deallocation_drops_the_statuses_of_the_devices():
    writing = RegistryClient()
    writing.create(claim())
    devices = [{key: value for key, value in result().items() if key != "request"}]
    writing.update(claim(), status(allocation=allocation(), devices=devices), "status")

    def free(obj):
        del obj["status"]["allocation"]

    assert writing.update(claim(), free, "status")["status"] == {}


def test_nobody_joins_a_claim_that_is_deleted():
    writing = RegistryClient()
    obj = claim()
    obj["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    writing.create(obj)
    writing.update(obj, status(allocation=allocation(), reservedFor=[pod_entry(), pod_entry("p2", "u2")]), "status")
    writing.delete(obj)
    assert refused(writing.update, obj, status(reservedFor=[pod_entry()]), "status") == []
    assert refused(writing.update, obj, status(reservedFor=[pod_entry(), pod_entry("p3", "u3")]), "status") == [
        (
            "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or"
            " `deletionTimestamp` are set"
        )
    ]


def test_a_claim_may_name_its_workload_before_the_workload_has_a_uid():
    writing = RegistryClient()
    obj = claim()
    obj["spec"]["reservedFor"] = {"apiGroup": "batch", "resource": "jobs", "name": "train"}
    assert writing.create(obj)["spec"]["reservedFor"]["name"] == "train"
    obj["metadata"]["name"] = "d"
    del obj["spec"]["reservedFor"]["name"]
    assert refused(writing.create, obj) == ["spec.reservedFor.name: Required value"]


def test_admin_access_is_granted_in_namespaces_that_are_meant_for_it():
    writing = RegistryClient()

    def label(obj):
        obj["metadata"]["labels"]["resource.kubernetes.io/admin-access"] = "true"

    writing.update({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}, label)
    assert refused(writing.create, claim(exactly(adminAccess=True))) == []


def test_a_template_is_checked_like_its_claims_and_immutable():
    writing = RegistryClient()
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"spec": claim()["spec"]},
    }
    made = writing.create(template)
    assert made["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1

    def rename(obj):
        obj["spec"]["spec"]["devices"]["requests"][0]["name"] = "h"

    (cause,) = refused(writing.update, template, rename)
    assert cause.startswith('spec: Invalid value: {"')


@pytest.mark.parametrize(
    ("state", "fields"),
    [
        pytest.param("pending", {}, id="pending"),
        pytest.param("allocated", {"allocation": allocation()}, id="allocated"),
        pytest.param("allocated,reserved", {"allocation": allocation(), "reservedFor": [pod_entry()]}, id="reserved"),
    ],
)
def test_the_state_of_a_claim_in_a_table(state, fields):
    writing = RegistryClient()
    writing.create(claim())
    writing.update(claim(), status(**fields), "status")
    assert writing.table_cells(claim())["State"] == state
