import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.model.meta import ObjectMeta
from dra.model.nodes import (
    Node,
    NodeCondition,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeStatus,
    are_all_deleted,
    matches_node_selector,
    selected_node_names,
)
from tests.violations import for_each_case

LABELS = {"zone": "a", "cores": "64", "empty": ""}


def requirement(key, operator, *values):
    return NodeSelectorRequirement(key=key, operator=operator, values=list(values) or None)


def by_labels(*requirements):
    return NodeSelectorTerm(match_expressions=list(requirements))


def by_fields(*requirements):
    return NodeSelectorTerm(match_fields=list(requirements))


def reaches(*terms):
    return matches_node_selector(NodeSelector(node_selector_terms=list(terms)), name="n1", labels=LABELS)


@for_each_case(
    [
        pytest.param("In", "zone", ["a", "b"], True, id="in"),
        pytest.param("In", "zone", ["b"], False, id="not-among-the-values"),
        pytest.param("In", "rack", ["a"], False, id="in-without-the-label"),
        pytest.param("In", "empty", [""], True, id="in-of-an-empty-value"),
        pytest.param("NotIn", "zone", ["b"], True, id="notin"),
        pytest.param("NotIn", "zone", ["a"], False, id="notin-but-there"),
        pytest.param("NotIn", "rack", ["a"], True, id="notin-without-the-label"),
        pytest.param("Exists", "zone", [], True, id="exists"),
        pytest.param("Exists", "empty", [], True, id="exists-though-empty"),
        pytest.param("Exists", "rack", [], False, id="exists-not"),
        pytest.param("DoesNotExist", "rack", [], True, id="does-not-exist"),
        pytest.param("DoesNotExist", "zone", [], False, id="does-exist"),
        pytest.param("Gt", "cores", ["63"], True, id="greater"),
        pytest.param("Gt", "cores", ["64"], False, id="greater-is-strict"),
        pytest.param("Lt", "cores", ["100"], True, id="less-as-numbers-not-as-texts"),
        pytest.param("Lt", "cores", ["64"], False, id="less-is-strict"),
        pytest.param("Gt", "zone", ["1"], False, id="no-number"),
        pytest.param("Gt", "cores", ["x"], False, id="no-number-to-compare-with"),
        pytest.param("Gt", "cores", [], False, id="nothing-to-compare-with"),
        pytest.param("Gt", "rack", ["1"], False, id="greater-without-the-label"),
        pytest.param("Like", "zone", ["a"], False, id="an-operator-of-the-future-matches-nothing"),
    ],
)
def test_operators(operator, key, values, holds):
    assert reaches(by_labels(requirement(key, operator, *values))) is holds


@for_each_case(
    [
        pytest.param([], False, id="no-term-matches-nothing"),
        pytest.param([NodeSelectorTerm()], False, id="an-empty-term-matches-nothing"),
        pytest.param([NodeSelectorTerm(), by_labels(requirement("zone", "Exists"))], True, id="one-term-is-enough"),
        pytest.param(
            [by_labels(requirement("zone", "Exists"), requirement("rack", "Exists"))], False, id="all-of-a-term"
        ),
        pytest.param([by_fields(requirement("metadata.name", "In", "n1"))], True, id="by-name"),
        pytest.param([by_fields(requirement("metadata.name", "In", "n2"))], False, id="by-another-name"),
        pytest.param([by_fields(requirement("metadata.uid", "In", "n1"))], False, id="by-an-unknown-field"),
        pytest.param(
            [
                NodeSelectorTerm(
                    match_fields=[requirement("metadata.name", "In", "n1")],
                    match_expressions=[requirement("rack", "Exists")],
                )
            ],
            False,
            id="fields-and-labels-both",
        ),
    ]
)
def test_a_node_is_reached_if_any_term_matches(terms, reached):
    assert reaches(*terms) is reached


def test_no_selector_means_every_node():
    assert matches_node_selector(None, name="n1", labels=None)


def test_a_node_without_labels_can_be_asked():
    selector = NodeSelector(node_selector_terms=[by_labels(requirement("zone", "Exists"))])
    assert not matches_node_selector(selector, name="n1", labels=None)


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param(None, False, id="no-conditions"),
        pytest.param([NodeCondition(type="Ready", status="True")], True, id="ready"),
        pytest.param([NodeCondition(type="Ready", status="Unknown")], False, id="silent"),
        pytest.param([NodeCondition(type="DiskPressure", status="True")], False, id="another-condition"),
    ],
)
def test_a_node_is_ready_if_its_kubelet_says_so(conditions, ready):
    assert Node(metadata=ObjectMeta(name="n1"), status=NodeStatus(conditions=conditions)).ready is ready


def requirements(key):
    return st.builds(
        NodeSelectorRequirement,
        key=st.sampled_from([key, "other"]),
        operator=st.sampled_from(["In", "NotIn", "Exists"]),
        values=st.none() | st.lists(st.sampled_from(["a", "b", "c"]), max_size=2),
    )


@given(
    terms=st.lists(
        st.builds(
            NodeSelectorTerm,
            match_fields=st.none() | st.lists(requirements("metadata.name"), max_size=2),
            match_expressions=st.none() | st.lists(requirements("zone"), max_size=1),
        ),
        max_size=3,
    ),
    name=st.sampled_from(["a", "b", "c"]),
)
def test_nobody_else_than_those_named_satisfies_a_selector(terms, name):
    selector = NodeSelector(node_selector_terms=terms)
    names = selected_node_names(selector)
    assert names is None or name in names or not matches_node_selector(selector, name=name, labels={"zone": "a"})


def named(*names):
    by_name = NodeSelectorRequirement(key="metadata.name", operator="In", values=list(names))
    return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[by_name])])


ZONE_A = NodeSelector(
    node_selector_terms=[
        NodeSelectorTerm(match_expressions=[NodeSelectorRequirement(key="zone", operator="In", values=["a"])])
    ]
)


@pytest.mark.parametrize(
    ("selector", "existing", "deleted"),
    [
        pytest.param(named("a", "b"), {"c"}, True, id="no-node-of-these-names"),
        pytest.param(named("a", "b"), {"b"}, False, id="one-is-left"),
        pytest.param(named(), {"c"}, False, id="no-names"),
        pytest.param(ZONE_A, {"c"}, False, id="by-labels"),
        pytest.param(None, set(), False, id="all-nodes"),
    ],
)
def test_whether_all_nodes_of_a_selector_are_deleted(selector, existing, deleted):
    assert are_all_deleted(selector, existing=existing) is deleted


def test_a_selector_by_name_needs_no_other_node():
    assert selected_node_names(named("a", "b")) == {"a", "b"}
