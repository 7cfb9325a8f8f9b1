import json

import msgspec
import pytest

from dra.model.volumes import PersistentVolume, PersistentVolumeClaim
from tests.dra.engine.descheduling.clusters import job, node, pod, reservation, snapshot
from tests.violations import for_each_case

NO_SCHEDULE = {"key": "a", "value": "b", "effect": "NoSchedule"}
NO_EXECUTE = {"key": "a", "value": "b", "effect": "NoExecute"}
PREFER = {"key": "a", "value": "b", "effect": "PreferNoSchedule"}
EXISTS = [{"operator": "Exists"}]
ZONE = "topology.kubernetes.io/zone"


def affinity(key, *values, operator="In"):
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def reason(target, candidate=None, *others, **objects):
    """Return why a pod of n1 does not fit on a node."""
    candidate = candidate or pod()
    found = snapshot([node("n1"), target], [candidate, *others], **objects)
    said = found.unfit_reason(candidate, target.metadata.name)
    assert (found.fitting_node(candidate) == target.metadata.name) is (not said)
    return said


@pytest.mark.parametrize(
    ("target", "spec", "said"),
    [
        pytest.param({}, {}, "", id="an-empty-node"),
        pytest.param({"ready": False}, {}, "node(s) were not ready", id="not-ready"),
        pytest.param({"unschedulable": True}, {}, "node(s) were unschedulable", id="cordoned"),
        pytest.param({"unschedulable": True}, {"tolerations": EXISTS}, "", id="cordoned-and-tolerated"),
        pytest.param({"taints": [NO_SCHEDULE]}, {}, "node(s) had untolerated taint {a: b}", id="NoSchedule"),
        pytest.param({"taints": [NO_EXECUTE]}, {}, "node(s) had untolerated taint {a: b}", id="NoExecute"),
        pytest.param({"taints": [PREFER]}, {}, "", id="PreferNoSchedule-does-not-filter"),
        pytest.param(
            {"taints": [NO_SCHEDULE, NO_EXECUTE]}, {"tolerations": EXISTS}, "", id="one-toleration-for-two-taints"
        ),
        pytest.param(
            {}, {"nodeSelector": {"disk": "ssd"}}, "node(s) didn't match Pod's node affinity/selector", id="selector"
        ),
        pytest.param({"labels": {"disk": "ssd"}}, {"nodeSelector": {"disk": "ssd"}}, "", id="selector-matches"),
        pytest.param(
            {}, {"affinity": affinity(ZONE, "a")}, "node(s) didn't match Pod's node affinity/selector", id="affinity"
        ),
        pytest.param({"labels": {ZONE: "a"}}, {"affinity": affinity(ZONE, "a")}, "", id="affinity-matches"),
        pytest.param({"cpu": "999m"}, {}, "Insufficient cpu", id="cpu"),
        pytest.param({"pods": "0"}, {}, "Too many pods", id="pods"),
    ],
)
def test_filters_of_one_node(target, spec, said):
    assert reason(node("n2", **target), pod(**spec)) == said


def ports(*numbers, ip="", protocol="TCP"):
    listed = [{"containerPort": n, "hostPort": n, "hostIP": ip, "protocol": protocol} for n in numbers]
    return [{"name": "c", "image": "i", "ports": listed}]


@pytest.mark.parametrize(
    ("own", "other", "fits"),
    [
        pytest.param(ports(80), ports(80), False, id="taken"),
        pytest.param(ports(80), ports(81), True, id="another-port"),
        pytest.param(ports(80, ip="10.0.0.1"), ports(80, ip="10.0.0.2"), True, id="another-address"),
        pytest.param(ports(80, ip="10.0.0.1"), ports(80), False, id="all-addresses"),
        pytest.param(ports(80), ports(80, protocol="UDP"), True, id="another-protocol"),
    ],
)
def test_host_ports(own, other, fits):
    said = reason(node("n2"), pod(containers=own), pod("q", on="n2", owner="db", containers=other))
    assert said == ("" if fits else "node(s) didn't have free ports for the requested pod ports")


def test_what_a_node_reservation_keeps_is_never_free():
    kept = {"node.koordinator.sh/reservation": json.dumps({"resources": {"cpu": "3500m"}})}
    assert reason(node("n2", annotations=kept)) == "Insufficient cpu"


def test_what_a_reservation_holds_is_free_for_its_owners_alone():
    held = reservation(on="n2", cpu="4")
    assert reason(node("n2"), pod(owner="web"), reservations=[held]) == ""
    assert reason(node("n2"), pod(owner="db"), reservations=[held]) == "Insufficient cpu"


def test_host_ports_of_a_reservation_are_held():
    template = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}}
    held = reservation(on="n2", template=template)
    said = reason(node("n2"), pod(owner="db", containers=ports(80)), reservations=[held])
    assert said == "node(s) didn't have free ports for the requested pod ports"


def test_a_bound_placeholder_counts_until_its_reservation_holds_the_node():
    owner = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "name": "r",
        "uid": "uid-r",
        "controller": True,
    }
    waiting = pod("reservation-uid-r", on="n2", cpu="3", owner="", metadata={"ownerReferences": [owner]})
    candidate = pod(owner="db", cpu="2")
    assert reason(node("n2"), candidate, waiting, reservations=[reservation(on="")]) == "Insufficient cpu"
    assert reason(node("n2"), candidate, waiting, reservations=[reservation(on="n2", cpu="2")]) == ""


def test_a_pod_does_not_count_on_its_own_node():
    candidate = pod(cpu="4", containers=[{"resources": {"requests": {"cpu": "4"}}, "ports": ports(80)[0]["ports"]}])
    assert snapshot([node("n1")], [candidate]).unfit_reason(candidate, "n1") == ""


def test_the_node_with_the_most_free_is_chosen_and_of_equals_the_first_by_name():
    nodes = [node(name) for name in ("n1", "n4", "n3", "n2")]
    candidate = pod()
    assert snapshot(nodes, [candidate]).fitting_node(candidate) == "n2"
    assert snapshot(nodes, [candidate, pod("q", on="n2")]).fitting_node(candidate) == "n3"


@pytest.mark.parametrize(
    ("among", "chosen"),
    [
        pytest.param(None, "n2", id="all"),
        pytest.param({"n3"}, "n3", id="one-receiver"),
        pytest.param({"n1"}, "", id="never-the-own-node"),
        pytest.param({"gone"}, "", id="an-unknown-node"),
        pytest.param((), "", id="nobody"),
    ],
)
def test_only_receivers_are_asked(among, chosen):
    candidate = pod()
    assert snapshot([node("n1"), node("n2"), node("n3")], [candidate]).fitting_node(candidate, among=among) == chosen


def test_an_unknown_node_is_named():
    assert snapshot([node("n1")]).unfit_reason(pod(), "gone") == "node gone: not found"


def of_app(app="web", key=ZONE, **more):
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def apart(*terms):
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def together(*terms):
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEW = "node(s) didn't match pod topology spread constraints"


def in_zones(*zones):
    """Return nodes n1, n2 … in these zones; none for a node without the label."""
    return [node(f"n{number}", labels={ZONE: zone} if zone else {}) for number, zone in enumerate(zones, 1)]


@for_each_case(
    [
        pytest.param(
            "ab", [pod("p", **apart(of_app("db"))), pod("q", "n2", owner="db")], ["", ANTI_AFFINITY], id="own"
        ),
        pytest.param(
            "ab", [pod("p"), pod("q", "n2", owner="db", **apart(of_app("web")))], ["", EXISTING], id="of-a-running-pod"
        ),
        pytest.param(
            "abb",
            [pod("p", **apart(of_app("db"))), pod("q", "n3", owner="db")],
            ["", ANTI_AFFINITY, ANTI_AFFINITY],
            id="partner-on-another-node-of-the-zone",
        ),
        pytest.param(
            "aab",
            [pod("p", **apart(of_app("web")))],
            ["", ANTI_AFFINITY, ""],
            id="its-own-zone-is-taken-while-the-pod-still-runs",
        ),
        pytest.param(
            "ab",
            [pod("p", **apart(of_app(), of_app())), pod("q", "n2", owner="db")],
            ["", ""],
            id="the-same-term-twice",
        ),
        pytest.param(
            ["", ""], [pod("p", **apart(of_app("db"))), pod("q", "n2", owner="db")], ["", ""], id="no-node-has-the-key"
        ),
        pytest.param(
            "ab",
            [pod("p", **apart(of_app("db"))), pod("q", "n2", owner="db", namespace="other")],
            ["", ""],
            id="another-namespace",
        ),
        pytest.param(
            "ab",
            [pod("p", **apart(of_app("db", namespaceSelector={}))), pod("q", "n2", owner="db", namespace="other")],
            ["", ANTI_AFFINITY],
            id="namespaceSelector-of-all-namespaces",
        ),
        pytest.param(
            "ab",
            [pod("p", **apart({"topologyKey": ZONE})), pod("q", "n2")],
            ["", ""],
            id="no-selector-selects-nobody",
        ),
        pytest.param(
            "ab",
            [
                pod("p", labels={"v": "1"}, **apart(of_app(matchLabelKeys=["v"]))),
                pod("q", "n2", labels={"v": "2"}),
            ],
            ["", ""],
            id="matchLabelKeys-tell-revisions-apart",
        ),
        pytest.param(
            "abb",
            [pod("p", **together(of_app("db"))), pod("q", "n2", owner="db")],
            [AFFINITY, "", ""],
            id="affinity-to-a-zone",
        ),
        pytest.param("ab", [pod("p", **together(of_app("web")))], ["", AFFINITY], id="near-itself-while-it-runs"),
        pytest.param(
            "ab",
            [pod("p", "", owner="web", **together(of_app("web")))],
            ["", ""],
            id="the-first-pod-of-a-workload-goes-anywhere",
        ),
        pytest.param(
            ["a", ""],
            [pod("p", "", owner="web", **together(of_app("web")))],
            ["", AFFINITY],
            id="but-not-to-a-node-without-the-key",
        ),
    ]
)
def test_affinity_between_pods(zones, pods, reasons):
    nodes = in_zones(*zones)
    found = snapshot(nodes, pods)
    assert [found.unfit_reason(pods[0], each.metadata.name) for each in nodes] == reasons


def spread(**more):
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **of_app(), **more}
    return {"topologySpreadConstraints": [constraint]}


def spread_pods(*counts, **spec):
    """Return so many pods on n1, n2 … with a spread constraint."""
    return [pod(f"p{n}-{i}", f"n{n}", cpu="", **spec) for n, count in enumerate(counts, 1) for i in range(count)]


@for_each_case(
    [
        pytest.param("ab", spread_pods(3, 1, **spread()), [SKEW, ""], id="from-the-fuller-to-the-emptier-zone"),
        pytest.param("ab", spread_pods(2, 2, **spread()), ["", SKEW], id="skew-once-the-pod-has-gone"),
        pytest.param(
            "aab", spread_pods(2, 0, 1, **spread()), ["", SKEW, ""], id="its-zone-is-full-while-the-pod-still-runs"
        ),
        pytest.param(
            "ab", spread_pods(2, 2, **spread(whenUnsatisfiable="ScheduleAnyway")), ["", ""], id="soft-constraints"
        ),
        pytest.param(
            ["a", ""], spread_pods(2, 0, **spread()), ["", f"{SKEW} (missing required label)"], id="without-the-key"
        ),
        pytest.param("ab", spread_pods(1, 1, **spread(minDomains=3)), ["", SKEW], id="minDomains-makes-the-fewest-0"),
        pytest.param("ab", spread_pods(2, 2, **spread(labelSelector={})), ["", ""], id="an-empty-selector-counts-none"),
        pytest.param("ab", spread_pods(2, 2, **spread(labelSelector=None)), ["", ""], id="no-selector-selects-nobody"),
        pytest.param(
            "ab",
            [*spread_pods(3, **spread()), pod("q", "n2", metadata={"deletionTimestamp": "2026-11-24T12:00:00Z"})],
            [SKEW, ""],
            id="terminating-pods-do-not-count",
        ),
    ]
)
def test_hard_topology_spread(zones, pods, reasons):
    nodes = in_zones(*zones)
    found = snapshot(nodes, pods)
    assert [found.unfit_reason(pods[0], each.metadata.name) for each in nodes] == reasons


def test_zones_whose_nodes_are_not_ready_exist_for_the_scheduler():
    """A zone dies: its two pods must not be followed by a third that leaves a zone where it runs."""
    nodes = [
        node("n1", labels={ZONE: "a"}),
        node("n2", labels={ZONE: "b"}),
        node("n3", labels={ZONE: "c"}, ready=False),
    ]
    pods = spread_pods(2, 1, **spread())
    assert snapshot(nodes, pods).fitting_node(pods[0]) == ""


@pytest.mark.parametrize(
    ("policy", "fits"),
    [pytest.param("Ignore", False, id="Ignore-counts-tainted-zones"), pytest.param("Honor", True, id="Honor")],
)
def test_domains_that_a_pod_does_not_tolerate(policy, fits):
    nodes = [*in_zones("a", "b"), node("n3", labels={ZONE: "c"}, taints=[NO_SCHEDULE])]
    pods = spread_pods(2, 1, **spread(nodeTaintsPolicy=policy))
    assert bool(snapshot(nodes, pods).fitting_node(pods[0])) is fits


def with_volumes(*names):
    return {"volumes": [{"persistentVolumeClaim": {"claimName": name}} for name in names]}


def volume(name, affinity_term=None, **labels):
    terms = {"required": {"nodeSelectorTerms": [affinity_term]}} if affinity_term else None
    content = {"metadata": {"name": name, "labels": labels}, "spec": {"nodeAffinity": terms}}
    return msgspec.convert(content, PersistentVolume)


def volume_claim(name, bound_to):
    content = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"volumeName": bound_to}}
    return msgspec.convert(content, PersistentVolumeClaim)


ON_N1 = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}


@pytest.mark.parametrize(
    ("volumes", "bound_to", "reasons"),
    [
        pytest.param([volume("v")], "v", ["", "", ""], id="a-volume-of-all-nodes"),
        pytest.param(
            [volume("v", ON_N1)],
            "v",
            ["", *["node(s) didn't match PersistentVolume's node affinity"] * 2],
            id="a-volume-of-one-node-keeps-its-pod-there",
        ),
        pytest.param(
            [volume("v", **{ZONE: "a__b"})],
            "v",
            ["", "", "node(s) had no available volume zone"],
            id="labels-of-zones",
        ),
        pytest.param([], "", ["", "", ""], id="a-claim-that-is-not-bound-yet"),
        pytest.param(
            [],
            "gone",
            ["node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"] * 3,
            id="a-volume-that-is-gone",
        ),
        pytest.param([], None, ['persistentvolumeclaim "data" not found'] * 3, id="a-claim-that-is-gone"),
    ],
)
def test_volumes(volumes, bound_to, reasons):
    nodes, candidate = in_zones("a", "b", "c"), pod(**with_volumes("data"))
    claims = [] if bound_to is None else [volume_claim("data", bound_to)]
    found = snapshot(nodes, [candidate], volumes=volumes, volume_claims=claims)
    assert [found.unfit_reason(candidate, each.metadata.name) for each in nodes] == reasons
    mountable = {each.metadata.name for each, reason in zip(nodes, reasons, strict=True) if not reason}
    assert found.mountable_nodes(candidate) == (None if len(mountable) == len(nodes) else mountable)


def test_generic_ephemeral_volumes_are_made_anew():
    candidate = pod(volumes=[{"ephemeral": {"volumeClaimTemplate": {}}}])
    assert snapshot([node("n1"), node("n2")], [candidate]).unfit_reason(candidate, "n2") == ""


def test_reservations_of_another_policy_leave_no_place_for_that_of_a_migration():
    held = reservation(on="n2", owners=[{"object": {"uid": "x"}}], allocatePolicy="Restricted")
    assert reason(node("n2"), pod(), reservations=[held]) == "node(s) reservation allocate policy conflict"


def test_a_pod_whose_annotation_is_malformed_fits_nowhere():
    candidate = pod(metadata={"annotations": {"scheduling.koordinator.sh/reservation-affinity": "{"}})
    assert "reservation-affinity" in reason(node("n2"), candidate)


def test_a_pod_that_is_nominated_for_a_node_counts_there():
    waiting = pod("q", "", cpu="4", status={"nominatedNodeName": "n2"})
    assert reason(node("n2"), pod(), waiting) == "Insufficient cpu"


def test_why_a_pod_fits_nowhere_is_told_in_the_words_of_the_scheduler():
    candidate = pod(cpu="2")
    nodes = [node("n1"), node("n2", cpu="1"), node("n3", cpu="1"), node("n4", unschedulable=True)]
    found = snapshot(nodes, [candidate])
    assert found.no_place_reason(candidate) == (
        "0/3 nodes are available: 2 Insufficient cpu, 1 node(s) were unschedulable"
    )
    assert found.no_place_reason(candidate, among={"n2"}) == "0/1 nodes are available: 1 Insufficient cpu"


def test_the_room_of_a_job_without_a_node_is_not_promised_again():
    pods = [pod("p1", cpu="3"), pod("p2", cpu="3")]
    nodes = [node("n1", cpu="8"), node("n2")]
    assert snapshot(nodes, pods).fitting_node(pods[1]) == "n2"
    assert snapshot(nodes, pods, jobs=[job(pods[0])]).fitting_node(pods[1]) == ""


def test_what_a_pod_takes_is_free_only_once_it_has_gone():
    pods = [pod("p1", "n1", cpu="3"), pod("p2", "n2", cpu="3", owner="db")]
    found = snapshot([node("n1"), node("n2"), node("n3")], pods)
    found.move(pods[0], "n3")
    assert found.unfit_reason(pods[1], "n1") == "Insufficient cpu"
