"""The index of pods that violate an anti-affinity says what a comparison of each pod with each other one says."""

from hypothesis import given
from hypothesis import strategies as st

from dra.engine.descheduling.anti_affinity import AntiAffinityPartners
from dra.engine.descheduling.inter_pod_affinity import anti_affinity_terms, matches_term
from tests.dra.engine.descheduling.clusters import at, node, pod, snapshot

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMESPACES = {"a": {"team": "x"}, "b": {"team": "y"}, "c": {}}
LABELS = st.fixed_dictionaries({}, optional={"tier": st.sampled_from(["1", "2"]), "hash": st.sampled_from(["h", "i"])})
SELECTORS = st.sampled_from(
    [
        None,
        {},
        {"matchLabels": {"tier": "1"}},
        {"matchLabels": {"tier": "1", "hash": "h"}},
        {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["1"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
    ]
)
TERMS = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["zone", "kubernetes.io/hostname", "absent"])},
    optional={
        "labelSelector": SELECTORS.filter(lambda selector: selector is not None),
        "namespaces": st.lists(st.sampled_from([*NAMESPACES, "unknown"]), max_size=2),
        "namespaceSelector": st.sampled_from([{}, {"matchLabels": {"team": "x"}}, {"matchLabels": {"team": "z"}}]),
        "matchLabelKeys": st.just(["hash"]),
        "mismatchLabelKeys": st.just(["tier"]),
    },
)


@st.composite
def clusters(draw):
    nodes = [
        node(f"n{number}", labels={"zone": zone} if (zone := draw(st.sampled_from(["", "z1", "z2"]))) else {})
        for number in range(3)
    ]
    pods = [
        pod(
            f"p{number}",
            draw(st.sampled_from(["", "n0", "n1", "n2", "gone"])),
            namespace=draw(st.sampled_from([*NAMESPACES, "unlisted"])),
            labels=draw(LABELS),
            metadata={"deletionTimestamp": at(-1)} if draw(st.sampled_from([False, False, True])) else {},
            status={"phase": draw(st.sampled_from(["Running", "Running", "Succeeded"]))},
            affinity={"podAntiAffinity": {REQUIRED: draw(st.lists(TERMS, max_size=2))}},
        )
        for number in range(draw(st.integers(0, 7)))
    ]
    return snapshot(nodes, pods, namespaces=NAMESPACES)


def violates(other, term, carrier, cluster):
    """Return whether a pod violates a term of another pod, by the rules of kube-scheduler."""
    here, there = (cluster.nodes.get(each.spec.node_name) for each in (carrier, other))
    if other is carrier or other.terminal or other.metadata.deleting or there is None:
        return False
    key = term.topology_key
    same_domain = key in here.labels and here.labels[key] == there.labels.get(key)
    return same_domain and matches_term(term, carrier=carrier, pod=other, namespaces=NAMESPACES)


@given(cluster=clusters(), goes=st.integers(0, 6))
def test_a_conflict_is_found_exactly_if_some_pod_violates_some_term(cluster, goes):
    partners = AntiAffinityPartners(cluster)
    pods = list(cluster.objects.pods)
    running = [each for each in pods if not each.terminal and not each.metadata.deleting]
    on_nodes = [each for each in running if each.spec.node_name in cluster.nodes]
    for gone in on_nodes[goes : goes + 1]:
        partners.remove(gone)
        pods.remove(gone)
    for carrier in pods:
        host = cluster.nodes.get(carrier.spec.node_name)
        if host is not None:
            expected = [
                other
                for term in anti_affinity_terms(carrier)
                for other in pods
                if violates(other, term, carrier, cluster)
            ]
            conflict = partners.conflict(carrier, host=host)
            assert (conflict is None) == (not expected)
            assert conflict is None or conflict.partner in expected
