"""What differs by the version of Kubernetes that a plane behaves as."""

import json

import pytest

from dra.api.reservations import crd
from dra.kube.transport import JSON, Request
from dra.model.releases import NEWEST, Release, nearest_release
from localplane.kinds.resource_slices import ResourceSliceStrategy
from localplane.server import ApiServer
from tests.violations import for_each_case

GROUP = "/apis/resource.k8s.io/v1"
RULE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "r"},
    "spec": {"deviceSelector": {}, "taint": {"key": "service", "effect": "NoSchedule"}},
}


def both(old, new):
    """One case for each release."""
    return pytest.mark.parametrize(
        ("release", "expected"),
        [
            pytest.param(Release.V1_36, old, id="1.36"),
            pytest.param(Release.V1_37, new, id="1.37"),
            pytest.param(Release.V1_38, new.replace("1.37", "1.38") if isinstance(new, str) else new, id="1.38"),
        ],
    )


async def ask(server, path, *, method="GET", body=None, **query):
    raw = None if body is None else json.dumps(body).encode()
    request = Request(method=method, path=path, query=query, body=raw, content_type=JSON, timeout=1)
    answer = await server.handle(request)
    return answer.status, json.loads(answer.body)


@both("v1.36.0+dra-reserve", "v1.37.0+dra-reserve")
async def test_the_server_says_its_version(release, expected):
    _, version = await ask(ApiServer(release=release), "/version")
    assert version["gitVersion"] == expected
    assert f"{version['major']}.{version['minor']}" == release


@both(404, 200)
async def test_device_taint_rules_are_served_without_a_gate(release, expected):
    status, _ = await ask(ApiServer(release=release), f"{GROUP}/devicetaintrules")
    assert status == expected


@both(400, 200)
async def test_slices_can_be_selected_by_their_pool(release, expected):
    status, _ = await ask(ApiServer(release=release), f"{GROUP}/resourceslices", fieldSelector="spec.pool.name=n1")
    assert status == expected


async def test_a_rule_is_never_updated_without_a_resource_version():
    server = ApiServer()
    _, made = await ask(server, f"{GROUP}/devicetaintrules", method="POST", body=RULE)
    status, refusal = await ask(server, f"{GROUP}/devicetaintrules/r", method="PUT", body=RULE)
    assert (status, refusal["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
    status, _ = await ask(server, f"{GROUP}/devicetaintrules/r", method="PUT", body=made)
    assert status == 200


async def test_the_openapi_document_has_the_rules():
    _, document = await ask(ApiServer(), "/openapi/v3/apis/resource.k8s.io/v1")
    assert f"{GROUP}/devicetaintrules/{{name}}/status" in document["paths"]
    selector = document["components"]["schemas"]["io.k8s.api.resource.v1.DeviceTaintSelector"]
    assert set(selector["properties"]) == {"driver", "pool", "device"}


def sliced(**device):
    """Return a ResourceSlice whose only device may have a place of its own."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "pool": pool, "devices": [{"name": "gpu", **device}]}
    where = {"perDeviceNodeSelection": True} if "nodeSelector" in device else {"nodeName": "n1"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": spec | where,
    }


TERM = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
LONG = f"1.{'9' * 19}.0"


@pytest.mark.parametrize(
    ("device", "told"),
    [
        pytest.param({"attributes": {"a/b/c": {"int": 1}}}, "must not contain more than one slash", id="attribute"),
        pytest.param({"capacity": {"a/b/c": {"value": "1"}}}, "must not contain more than one slash", id="capacity"),
        pytest.param({"attributes": {"x": {"version": LONG}}}, "with at most 18 digits in numbers", id="version"),
        pytest.param(
            {"nodeSelector": {"nodeSelectorTerms": [TERM, TERM]}},
            "must have exactly one node selector term",
            id="terms",
        ),
    ],
)
async def test_odd_devices_are_refused_since_1_38_once_they_change(device, told):
    status, _ = await ask(
        ApiServer(release=Release.V1_37), f"{GROUP}/resourceslices", method="POST", body=sliced(**device)
    )
    assert status == 201
    server = ApiServer(release=Release.V1_38)
    status, refusal = await ask(server, f"{GROUP}/resourceslices", method="POST", body=sliced(**device))
    assert (status, told in refusal["message"]) == (422, True), refusal


@pytest.mark.parametrize(("number", "refused"), [(1, True), (0, False)], ids=["changed", "as-they-are"])
def test_stored_devices_stay_as_they_are(number, refused):
    strategy = ResourceSliceStrategy(by_pool=True, stricter=True)
    stored = sliced(attributes={"a/b/c": {"int": 0}})
    new = sliced(attributes={"a/b/c": {"int": number}})
    new["spec"]["pool"] = {"name": "p", "generation": 2, "resourceSliceCount": 1}
    assert bool(strategy.validate_update(new, stored)) is refused


def placed(**place):
    """Return a stored ResourceSlice whose only device may have a place of two terms, and whose spec has one, too."""
    stored = sliced(nodeSelector={"nodeSelectorTerms": [TERM, TERM]}, attributes={"a/b/c": {"int": 0}})
    del stored["spec"]["perDeviceNodeSelection"]
    stored["spec"] |= place
    return stored


@pytest.mark.parametrize(
    ("stricter", "fields"),
    [
        pytest.param(False, [], id="up-to-1.37-terms-are-not-counted"),
        pytest.param(True, ["spec.devices[0].nodeSelector.nodeSelectorTerms"], id="since-1.38"),
    ],
)
def test_a_change_of_per_device_node_selection_has_only_places_checked(stricter, fields):
    strategy = ResourceSliceStrategy(by_pool=True, stricter=stricter)
    errors = strategy.validate_update(placed(perDeviceNodeSelection=True), placed(allNodes=True))
    assert [error.field for error in errors] == fields


@pytest.mark.parametrize(("stricter", "fields"), [(False, ["spec.devices[0].name"]), (True, [])], ids=["1.37", "1.38"])
def test_stored_devices_that_no_release_takes_pass_since_1_38_as_they_are(stricter, fields):
    strategy = ResourceSliceStrategy(by_pool=True, stricter=stricter)
    stored = sliced(name="Not-A-Label")
    assert [error.field for error in strategy.validate_update(stored, stored)] == fields


@for_each_case(
    [
        pytest.param("v1.34.4", Release.V1_36, id="older-than-all"),
        pytest.param("v1.36.3", Release.V1_36, id="1.36"),
        pytest.param("v1.37.2-eks-abc", Release.V1_37, id="1.37-of-a-vendor"),
        pytest.param("v1.38.0-beta.0", Release.V1_38, id="1.38-before-its-release"),
        pytest.param("v1.99.0", Release.V1_38, id="newer-than-all"),
        pytest.param("", NEWEST, id="unknown"),
        pytest.param("v2.0.0", NEWEST, id="another-major-version"),
    ]
)
def test_a_server_is_played_by_the_release_that_is_nearest(version, release):
    assert nearest_release(version) is release


def claim_of(*, name="c", kind="ResourceClaim", alternatives=False, **requests):
    """Return a claim, or a template, whose only request names these capacities."""
    asked = {"deviceClassName": "gpu", "capacity": {"requests": requests}}
    request = {"firstAvailable": [{"name": "sub", **asked}]} if alternatives else {"exactly": asked}
    spec = {"devices": {"requests": [{"name": "r", **request}]}}
    spec = spec if kind == "ResourceClaim" else {"spec": spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


WHERE = "spec.devices.requests[0].exactly.capacity.requests"


@pytest.mark.parametrize(
    ("claim", "causes"),
    [
        pytest.param(claim_of(memory="1Gi", **{"a.example/cores": "0"}), [], id="ordinary"),
        pytest.param(
            claim_of(**{"a/b/c": "1"}),
            [(WHERE, 'Invalid value: "a/b/c": must not contain more than one slash')],
            id="two-slashes",
        ),
        pytest.param(
            claim_of(memory="-1"),
            [(f"{WHERE}[memory]", 'Invalid value: "-1": must be greater than or equal to 0')],
            id="negative",
        ),
        pytest.param(
            claim_of(**{f"c{number}": "1" for number in range(33)}),
            [(WHERE, "Too many: 33: must have at most 32 items")],
            id="too-many",
        ),
        pytest.param(
            claim_of(alternatives=True, memory="-1"),
            [
                (
                    "spec.devices.requests[0].firstAvailable[0].capacity.requests[memory]",
                    'Invalid value: "-1": must be greater than or equal to 0',
                )
            ],
            id="an-alternative",
        ),
        pytest.param(
            claim_of(kind="ResourceClaimTemplate", memory="-1"),
            [(f"spec.{WHERE}[memory]", 'Invalid value: "-1": must be greater than or equal to 0')],
            id="a-template",
        ),
    ],
)
async def test_odd_capacities_of_requests_are_refused_since_1_38(claim, causes):
    path = f"{GROUP}/namespaces/default/{claim['kind'].lower()}s"
    status, _ = await ask(ApiServer(release=Release.V1_37), path, method="POST", body=claim)
    assert status == 201
    status, answer = await ask(ApiServer(release=Release.V1_38), path, method="POST", body=claim)
    assert status == (422 if causes else 201)
    listed = answer.get("details", {}).get("causes", ())
    assert [(each["field"], each["message"]) for each in listed] == causes


@both(200, 200)
@pytest.mark.parametrize("amount", ["1Gi", "-1"])
async def test_negative_shares_are_refused_since_1_38(release, expected, amount):
    server, path = ApiServer(release=release), f"{GROUP}/namespaces/default/resourceclaims"
    _, claim = await ask(server, path, method="POST", body=claim_of())
    result = {"request": "r", "driver": "d.example", "pool": "p", "device": "d", "consumedCapacity": {"memory": amount}}
    claim["status"] = {"allocation": {"devices": {"results": [result]}}}
    status, answer = await ask(server, f"{path}/c/status", method="PUT", body=claim)
    refused = amount == "-1" and release == Release.V1_38
    assert status == (422 if refused else expected), answer
    fields = [each["field"] for each in answer.get("details", {}).get("causes", ())]
    assert fields == (["status.allocation.devices.results[0].consumedCapacity[memory]"] if refused else [])


EMPTY_SELECTOR = '299 - "spec.deviceSelector: an empty selector matches every device from every driver in the cluster"'


@pytest.mark.parametrize(
    ("release", "selector", "warning"),
    [
        pytest.param(Release.V1_37, {}, None, id="1.37"),
        pytest.param(Release.V1_38, {}, EMPTY_SELECTOR, id="1.38"),
        pytest.param(Release.V1_38, {"driver": "d.example"}, None, id="not-empty"),
        pytest.param(Release.V1_38, None, None, id="none-which-only-keeps-devices-from-being-allocated"),
    ],
)
async def test_the_writer_of_a_rule_for_all_devices_is_warned_since_1_38(release, selector, warning):
    server, path = ApiServer(release=release), f"{GROUP}/devicetaintrules"
    spec = RULE["spec"] | {"deviceSelector": selector}
    body = json.dumps(RULE | {"spec": spec}).encode()
    made = await server.handle(Request(method="POST", path=path, body=body, content_type=JSON, timeout=1))
    changed = await server.handle(Request(method="PUT", path=f"{path}/r", body=made.body, content_type=JSON, timeout=1))
    assert [(each.status, each.headers.get("warning")) for each in (made, changed)] == [(201, warning), (200, warning)]


@pytest.mark.parametrize("path", ["/apis/nobody.example", "/apis/nobody.example/v1/things", "/nowhere"])
async def test_an_unknown_path_is_answered_with_a_status_since_1_38(path):
    def get(release):
        return ApiServer(release=release).handle(Request(method="GET", path=path, timeout=1))

    older, newer = await get(Release.V1_37), await get(Release.V1_38)
    assert (older.status, older.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert (newer.status, newer.headers["content-type"]) == (404, JSON)
    assert json.loads(newer.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "404 page not found",
        "reason": "NotFound",
        "code": 404,
    }


POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
PODS = "/api/v1/namespaces/default/pods"


@both({}, {})
async def test_deletions_bindings_and_evictions_tell_their_revision_since_1_38(release, expected):
    server = ApiServer(release=release)
    _, made = await ask(server, PODS, method="POST", body=POD)
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    _, bound = await ask(server, f"{PODS}/p/binding", method="POST", body=binding)
    _, pod = await ask(server, f"{PODS}/p")
    assert pod["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    _, evicted = await ask(server, f"{PODS}/p/eviction", method="POST", body={"metadata": {"name": "p"}})
    _, ending = await ask(server, f"{PODS}/p")
    _, deleted = await ask(server, f"{PODS}/p", method="DELETE", gracePeriodSeconds="0")
    answers = [each["metadata"] for each in (bound, evicted, deleted)]
    if release != Release.V1_38:
        assert answers == [expected] * 3
        return
    told = [pod["metadata"]["resourceVersion"], ending["metadata"]["resourceVersion"], str(server.store.revision)]
    assert [each["resourceVersion"] for each in answers] == told


@both((500, None), (500, None))
@pytest.mark.parametrize("path", [f"{PODS}/p", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"])
async def test_a_get_at_a_malformed_revision_is_the_clients_fault_since_1_38(release, expected, path):
    status, refusal = await ask(ApiServer(release=release), path, resourceVersion="abc")
    fault = 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    subject = {f"{PODS}/p": 'pods "p"'}.get(path, 'leases.coordination.k8s.io "l"')
    if release == Release.V1_38:
        expected, fault = (422, "Invalid"), f"{subject} is invalid: {fault}"
    assert (status, refusal.get("reason")) == expected
    assert refusal["message"] == fault


PRIORITY = {"metadata": {"name": "high"}, "value": 7}


@both("value: Forbidden: may not be changed in an update.", "value: Forbidden: may not be changed in an update.")
async def test_the_value_of_a_priority_class_is_immutable_in_the_words_of_the_release(release, expected):
    server, path = ApiServer(release=release), "/apis/scheduling.k8s.io/v1/priorityclasses"
    await ask(server, path, method="POST", body=PRIORITY)
    status, refusal = await ask(server, f"{path}/high", method="PUT", body=PRIORITY | {"value": 8})
    told = "value: Invalid value: 8: field is immutable" if release == Release.V1_38 else expected
    assert (status, refusal["message"].partition("is invalid: ")[2]) == (422, told)


GATED = "`spec.schedulingGates` (only deletions of existing scheduling gates)"


@both(422, 422)
async def test_the_refusal_of_a_pods_update_names_what_changes_while_it_is_gated_since_1_38(release, expected):
    server = ApiServer(release=release)
    _, pod = await ask(server, PODS, method="POST", body=POD)
    pod["spec"]["hostname"] = "other"
    status, refusal = await ask(server, f"{PODS}/p", method="PUT", body=pod)
    assert (status, GATED in refusal["message"]) == (expected, release == Release.V1_38)


@both(201, 201)
@pytest.mark.parametrize("part", ["labels", "annotations"])
async def test_malformed_metadata_of_a_binding_is_refused_since_1_38(release, expected, part):
    server = ApiServer(release=release)
    await ask(server, PODS, method="POST", body=POD)
    binding = {"metadata": {"name": "p", part: {"a/b/c": "d"}}, "target": {"kind": "Node", "name": "n1"}}
    status, answer = await ask(server, f"{PODS}/p/binding", method="POST", body=binding)
    assert status == (500 if release == Release.V1_38 else expected)
    assert (f"metadata.{part}: Invalid value" in answer.get("message", "")) is (release == Release.V1_38)


@both(-1, -1)
async def test_the_update_that_removes_the_last_finalizer_shows_the_deletion_since_1_38(release, expected):
    server, path = ApiServer(release=release), "/api/v1/namespaces/default/configmaps"
    kept = {"metadata": {"name": "m", "finalizers": ["example.com/keep"]}}
    await ask(server, path, method="POST", body=kept)
    _, ending = await ask(server, f"{path}/m", method="DELETE")
    before = server.store.revision
    ending["metadata"]["finalizers"] = []
    _, last = await ask(server, f"{path}/m", method="PUT", body=ending)
    assert server.store.revision == before + 1
    later = 0 if release == Release.V1_38 else expected
    assert int(last["metadata"]["resourceVersion"]) == server.store.revision + later


@both(
    "spec.owners: Invalid value: 0: spec.owners in body should have at least 1 items",
    "spec.owners: Invalid value: 0: spec.owners in body should have at least 1 items",
)
async def test_custom_resources_are_refused_in_the_words_of_the_release(release, expected):
    server = ApiServer(release=release)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await ask(server, definitions, method="POST", body=crd.custom_resource_definition())
    body = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "r"},
        "spec": {"owners": [], "template": {"spec": {"containers": []}}, "ttl": "1h"},
    }
    status, answer = await ask(
        server, "/apis/scheduling.koordinator.sh/v1alpha1/reservations", method="POST", body=body
    )
    told = "spec.owners: Too few: 0: must have at least 1 item" if release == Release.V1_38 else expected
    assert (status, told in answer["message"]) == (422, True), answer["message"]
