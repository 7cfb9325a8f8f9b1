from hypothesis import given
from hypothesis import strategies as st

from dra.engine.descheduling.receivers import EXCLUDED_MAX, HOSTNAME, NAMED_MAX, receivers_term
from dra.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, matches_node_selector


def nodes(count, *, labels=True):
    return {f"n{number}": {HOSTNAME: f"host-{number}"} if labels else {} for number in range(count)}


def names(first, last):
    return frozenset(f"n{number}" for number in range(first, last))


def admitted(term, cluster):
    """Return the nodes that kube-scheduler may choose."""
    if term is None:
        return set(cluster)
    parts = {
        field: [NodeSelectorRequirement(**requirement) for requirement in term.get(name, ())]
        for name, field in (("matchExpressions", "match_expressions"), ("matchFields", "match_fields"))
    }
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(**parts)])
    return {name for name, labels in cluster.items() if matches_node_selector(selector, name=name, labels=labels)}


def test_without_receivers_any_other_node_may_receive():
    assert receivers_term(None, nodes(3), source="n0", chosen="n1") is None


def test_receivers_that_are_all_other_nodes_need_no_term():
    assert receivers_term(names(1, 3), nodes(3), source="n0", chosen="n1") is None


def test_of_three_nodes_two_are_hot_and_only_the_third_may_receive():
    term = receivers_term(frozenset({"n2"}), nodes(3), source="n0", chosen="n2")
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}


def test_few_nodes_that_do_not_receive_are_excluded_one_by_one():
    """An entry with two names would be refused: a field takes one value."""
    term = receivers_term(names(3, 10), nodes(10), source="n0", chosen="n4")
    assert term == {
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in ("n1", "n2")]
    }


def test_few_receivers_are_named_by_their_hosts():
    term = receivers_term(names(1, 3), nodes(10), source="n0", chosen="n2")
    assert term == {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["host-2", "host-1"]}]}


def test_a_host_name_that_another_node_has_as_well_names_no_receiver():
    cluster = {**nodes(10), "n9": {HOSTNAME: "host-1"}}
    assert admitted(receivers_term(names(1, 4), cluster, source="n0", chosen="n2"), cluster) == {"n2", "n3"}


def test_without_host_names_the_chosen_node_alone_receives_where_many_are_excluded():
    cluster = nodes(EXCLUDED_MAX + 10, labels=False)
    assert admitted(receivers_term(names(1, 4), cluster, source="n0", chosen="n2"), cluster) == {"n2"}


def test_five_thousand_nodes_make_a_short_list():
    term = receivers_term(names(1, 2500), nodes(5000), source="n0", chosen="n2400")
    (requirement,) = term["matchExpressions"]
    assert (len(requirement["values"]), requirement["values"][0]) == (NAMED_MAX, "host-2400")


@given(st.data())
def test_only_receivers_are_admitted_and_the_chosen_one_always(data):
    count = data.draw(st.integers(2, 60))
    cluster = {f"n{number}": {HOSTNAME: data.draw(st.sampled_from(["", "x", f"h{number}"]))} for number in range(count)}
    receivers = data.draw(st.frozensets(st.sampled_from(sorted(cluster)), min_size=1))
    source = data.draw(st.sampled_from(sorted(cluster)))
    if not receivers - {source}:
        return
    chosen = data.draw(st.sampled_from(sorted(receivers - {source})))
    open_nodes = admitted(receivers_term(receivers, cluster, source=source, chosen=chosen), cluster) - {source}
    assert open_nodes <= receivers
    assert chosen in open_nodes
