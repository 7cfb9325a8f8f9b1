"""Namespaces, nodes, events, leases, priorities and the rest: their rules and their lines."""

import pytest

from tests.localplane.kinds.registry_client import NOON, RegistryClient, refused


def core(kind, name="x", *, version="v1", **fields):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}} | fields


def event(version="v1", **fields):
    return core("Event", version=version) | {"metadata": {"name": "e", "namespace": "default"}} | fields


ABOUT = {"kind": "Pod", "namespace": "default", "name": "p"}
NEW = {
    "eventTime": "2026-11-21T11:59:00.000000Z",
    "reportingController": "example.com/c",
    "reportingInstance": "c-1",
    "action": "Binding",
    "reason": "Bound",
    "type": "Normal",
    "note": "m",
    "regarding": ABOUT,
}


def test_an_event_is_seen_through_both_groups():
    writing = RegistryClient()
    made = writing.create(event("events.k8s.io/v1", **NEW))
    assert (made["apiVersion"], made["message"], made["involvedObject"]) == ("v1", "m", ABOUT)
    kind = writing.catalog.kind_of(event("events.k8s.io/v1"))
    shown = kind.converter.from_storage(made)
    assert {**NEW, "deprecatedSource": {}, "deprecatedFirstTimestamp": None}.items() <= shown.items()
    assert shown["apiVersion"] == "events.k8s.io/v1"


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("v1", {"involvedObject.name": "p", "involvedObject.kind": "Pod", "reportingComponent": "example.com/c"}),
        ("events.k8s.io/v1", {"regarding.name": "p", "regarding.kind": "Pod", "reportingController": "example.com/c"}),
    ],
)
def test_each_group_selects_events_by_its_own_names(version, fields):
    writing = RegistryClient()
    made = writing.create(event("events.k8s.io/v1", **NEW))
    selectable = writing.catalog.kind_of(event(version)).strategy.selectable_fields(made)
    assert fields.items() <= selectable.items()
    other = "regarding" if version == "v1" else "involvedObject"
    assert not [name for name in selectable if name.startswith(other)]


def test_an_event_of_the_old_kind_is_written_out():
    made = RegistryClient().create(event(involvedObject=ABOUT, reason="Bound", message="m", type="Normal"))
    assert {
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }.items() <= made.items()


@pytest.mark.parametrize(
    ("obj", "causes"),
    [
        pytest.param(
            event(involvedObject=ABOUT | {"namespace": "ml"}),
            ['involvedObject.namespace: Invalid value: "ml": does not match event.namespace'],
            id="old-of-another-namespace",
        ),
        pytest.param(
            event("events.k8s.io/v1", **NEW | {"action": ""}), ["action: Required value"], id="new-without-action"
        ),
        pytest.param(
            event("events.k8s.io/v1", **NEW | {"series": {"count": 1}}),
            [
                'series.count: Invalid value: "": should be at least 2',
                "series.lastObservedTime: Required value",
            ],
            id="series-of-one",
        ),
    ],
)
def test_what_an_event_must_say(obj, causes):
    assert refused(RegistryClient().create, obj) == causes


def test_a_series_may_go_on_and_nothing_else_may_change():
    writing = RegistryClient()
    obj = event("events.k8s.io/v1", **NEW)
    writing.create(obj)
    series = {"count": 2, "lastObservedTime": "2026-11-21T11:59:30.000000Z"}
    assert refused(writing.update, obj, lambda e: e.update(series=series)) == []
    assert refused(writing.update, obj, lambda e: e.update(reason="Other")) == [
        'reason: Invalid value: "Other": field is immutable'
    ]
    assert writing.table_cells(obj)["Last Seen"] == "30s"
    assert writing.table_cells(obj)["Object"] == "pod/p"


def test_a_namespace_ends_when_its_contents_are_gone():
    writing = RegistryClient()
    made = writing.create(core("Namespace", "ml"))
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "ml"}
    writing.delete(core("Namespace", "ml"))
    assert writing.table_cells(core("Namespace", "ml"))["Status"] == "Terminating"
    writing.update(core("Namespace", "ml"), lambda obj: obj["spec"].update(finalizers=[]), "finalize")
    assert refused(writing.get, core("Namespace", "ml")) == ['namespaces "ml" not found']


def test_an_immutable_config_map_stays():
    writing = RegistryClient()
    writing.create(core("ConfigMap", data={"a": "b"}, immutable=True))
    said = "Forbidden: field is immutable when `immutable` is set"
    assert refused(writing.update, core("ConfigMap"), lambda obj: obj.update(data={})) == [f"data: {said}"]
    assert refused(writing.update, core("ConfigMap"), lambda obj: obj.pop("immutable")) == [f"immutable: {said}"]


def test_texts_of_a_secret_become_its_data():
    made = RegistryClient().create(core("Secret", stringData={"a": "b"}))
    assert (made["data"], made["type"]) == ({"a": "Yg=="}, "Opaque")
    assert "stringData" not in made


def test_a_node_registers_with_its_status():
    made = RegistryClient().create(core("Node", "n1", status={"nodeInfo": {"bootID": "1"}}))
    assert made["status"]["nodeInfo"]["bootID"] == "1"


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        pytest.param({}, "Unknown", id="silent"),
        pytest.param({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "Ready", id="ready"),
        pytest.param(
            {"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            "NotReady,SchedulingDisabled",
            id="cordoned",
        ),
    ],
)
def test_the_state_of_a_node(fields, state):
    writing = RegistryClient()
    writing.create(core("Node", "n1", **fields))
    assert writing.table_cells(core("Node", "n1"))["Status"] == state


def test_a_priority_class_keeps_its_number():
    writing = RegistryClient()
    obj = core("PriorityClass", "high", version="scheduling.k8s.io/v1", value=7)
    writing.create(obj)
    assert refused(writing.update, obj, lambda each: each.update(value=8)) == [
        "value: Forbidden: may not be changed in an update."
    ]
    assert refused(writing.create, core("PriorityClass", "top", version="scheduling.k8s.io/v1", value=10**9 + 1)) == [
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"
    ]


def test_a_review_is_answered_and_not_stored():
    writing = RegistryClient()
    review = core("SelfSubjectAccessReview", version="authorization.k8s.io/v1", spec={})
    assert writing.create(review)["status"]["allowed"] is True
    assert list(writing.registry.list_objects("selfsubjectaccessreviews.authorization.k8s.io")) == []


def test_a_lease_lasts_a_while():
    lease = core("Lease", version="coordination.k8s.io/v1", spec={"leaseDurationSeconds": 0})
    assert refused(RegistryClient().create, lease) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    ]


def test_a_name_that_is_none_is_refused():
    (cause,) = refused(RegistryClient().create, core("ConfigMap", "Bad_Name"))
    assert cause.startswith('metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain must consist of')
    assert NOON.tzinfo is not None


NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        pytest.param([], [NOT_READY], id="none"),
        pytest.param([NOT_READY], [NOT_READY], id="the-same"),
        pytest.param(
            [NOT_READY | {"effect": "NoExecute"}], [NOT_READY | {"effect": "NoExecute"}, NOT_READY], id="another-effect"
        ),
    ],
)
def test_a_new_node_takes_no_pods_yet(given, stored):
    assert RegistryClient().create(core("Node", spec={"taints": given}))["spec"]["taints"] == stored


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        pytest.param({"podSelector": {}}, ["Ingress"], id="what-comes-in"),
        pytest.param({"podSelector": {}, "egress": [{}]}, ["Ingress", "Egress"], id="what-goes-out-too"),
        pytest.param({"podSelector": {}, "policyTypes": ["Egress"]}, ["Egress"], id="as-it-says"),
    ],
)
def test_a_network_policy_says_which_traffic_it_is_for(spec, types):
    policy = core("NetworkPolicy", version="networking.k8s.io/v1", spec=spec)
    assert RegistryClient().create(policy)["spec"]["policyTypes"] == types
