"""What a tenant can make bigger has a maximum: beyond it the tenant's own pods stay, and those of others do not."""

from dra.engine.descheduling import devices, inter_pod_affinity, label_groups
from tests.dra.engine.descheduling.clusters import node, pod, snapshot
from tests.dra.engine.descheduling.gpu_nodes import CLASSES, cards, gpu_pod

ZONE = "topology.kubernetes.io/zone"


def unlike(number, *, key=ZONE, app="web"):
    """Return a selector as no other pod has one."""
    expressions = [{"key": "v", "operator": "NotIn", "values": [str(number)]}]
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}, "matchExpressions": expressions}}


def apart(term):
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


NODES = [node("n1", labels={ZONE: "a"}), node("n2", labels={ZONE: "b"})]


def test_terms_beyond_the_maximum_count_as_if_they_matched_all_pods_with_their_label(monkeypatch):
    """Each term spares the pod with its own `v`; the third one does so no longer."""
    monkeypatch.setattr(inter_pod_affinity, "TERMS_MAX", 2)
    carriers = [pod(f"c{i}", "n2", owner="db", cpu="100m", **apart(unlike(i))) for i in range(3)]
    spared = [pod(f"p{i}", cpu="100m", labels={"v": str(i)}) for i in range(3)]
    for i, candidate in enumerate(spared):
        seen = snapshot(NODES, [candidate, carriers[i]])
        assert seen.unfit_reason(candidate, "n2") == ""
    seen = snapshot(NODES, [spared[2], *carriers])
    assert seen.unfit_reason(spared[2], "n2") == inter_pod_affinity.EXISTING_ANTI_AFFINITY
    stranger = pod("x", owner="other", cpu="100m")
    assert snapshot(NODES, [stranger, *carriers]).unfit_reason(stranger, "n2") == ""


def test_terms_of_topology_keys_that_no_node_has_are_not_remembered():
    carriers = [pod(f"c{i}", "n2", cpu="100m", **apart(unlike(i, key=f"k{i}"))) for i in range(3)]
    candidate = pod(cpu="100m")
    assert snapshot(NODES, [candidate, *carriers]).unfit_reason(candidate, "n2") == ""


def test_pods_with_more_selectors_than_can_be_compared_stay_and_others_do_not(monkeypatch):
    monkeypatch.setattr(label_groups, "SELECTIONS_MAX", 3)
    tenants = [pod(f"p{i}", cpu="100m", labels={"v": str(i)}, **apart(unlike(i, app="db"))) for i in range(3)]
    others = [pod("q", owner="db", cpu="100m"), pod("r", owner="db", cpu="100m", labels={"v": "1"})]
    elsewhere = pod("x", namespace="other", cpu="100m", **apart(unlike(0, app="db")))
    seen = snapshot(NODES, [*tenants, *others, elsewhere])
    said = [seen.unfit_reason(each, "n2") for each in tenants]
    assert said == ["", *["namespace ns: its pods have too many different label selectors"] * 2]
    assert [bool(seen.fitting_node(each)) for each in tenants] == [True, False, False]
    assert seen.unfit_reason(elsewhere, "n2") == ""


def test_pods_with_more_claims_than_can_be_searched_stay_and_others_do_not(monkeypatch):
    monkeypatch.setattr(devices, "SEARCHES_MAX", 1)
    tenants = [gpu_pod(f"p{i}", "n1", [i], owner=f"o{i}", cpu="100m", model="h100" * i) for i in range(2)]
    other = gpu_pod("x", "n1", [2], namespace="other", cpu="100m")
    seen = snapshot(
        NODES,
        [each for each, _ in (*tenants, other)],
        claims=[claim for _, claim in tenants],
        slices=[cards("n1", 4), cards("n2", 4)],
        device_classes=CLASSES,
    )
    said = [seen.unfit_reason(each, "n2") for each, _ in tenants]
    assert said == ["", "namespace ns: its pods have too many different claims"]
