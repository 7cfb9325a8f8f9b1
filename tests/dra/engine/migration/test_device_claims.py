"""The nodes on which claims can be used that a pod names."""

import msgspec
import pytest

from dra.engine.migration.device_claims import claim_reach, named_claims
from dra.engine.migration.view import MigrationPod
from dra.model.claims import ResourceClaim
from dra.model.nodes import Node
from tests.violations import for_each_case

KEY = ("ns", "train")
GPU_NODES = [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes"]}]}]


def by_name(*names):
    return [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in names]


def claim(terms=None, *, allocated=True):
    allocation = {} if terms is None else {"nodeSelector": {"nodeSelectorTerms": terms}}
    content = {"metadata": {"namespace": "ns", "name": "train"}, "status": {"allocation": allocation}}
    if not allocated:
        del content["status"]
    return msgspec.convert(content, ResourceClaim)


def nodes(**labels):
    """Return nodes n1, n2, n3, each with the given value of label gpu."""
    return [
        msgspec.convert({"metadata": {"name": name, "labels": {"gpu": labels.get(name, "no")}}}, Node)
        for name in ("n1", "n2", "n3")
    ]


MISSING, ANYWHERE, NOWHERE = (False, "", True), (True, "", True), (True, "", False)


@for_each_case(
    [
        pytest.param(None, None, MISSING, id="no-claim"),
        pytest.param(None, nodes(), MISSING, id="no-claim-nodes-known"),
        pytest.param(claim(allocated=False), None, ANYWHERE, id="not-allocated"),
        pytest.param(claim(allocated=False), nodes(), ANYWHERE, id="not-allocated-nodes-known"),
        pytest.param(claim(), None, ANYWHERE, id="network-devices"),
        pytest.param(claim(), nodes(), ANYWHERE, id="network-devices-nodes-known"),
        pytest.param(claim(by_name("n1")), None, (True, "n1", False), id="devices-of-the-pods-node"),
        pytest.param(claim(by_name("n1")), nodes(), (True, "n1", False), id="devices-of-the-pods-node-nodes-known"),
        pytest.param(claim(by_name("n2")), None, (True, "n2", True), id="devices-of-another-node"),
        pytest.param(claim(by_name("n2")), nodes(), (True, "n2", True), id="devices-of-another-node-nodes-known"),
        pytest.param(claim(by_name("n1", "n2")), None, ANYWHERE, id="two-names"),
        pytest.param(claim(by_name("n1", "n2")), nodes(), ANYWHERE, id="two-names-nodes-known"),
        pytest.param(claim(by_name("n1", "gone")), None, ANYWHERE, id="a-name-may-be-a-node"),
        pytest.param(claim(by_name("n1", "gone")), nodes(), (True, "n1", False), id="a-name-is-no-node"),
        pytest.param(claim(by_name("gone")), nodes(), NOWHERE, id="only-name-is-no-node"),
        pytest.param(claim([]), None, NOWHERE, id="selector-without-terms"),
        pytest.param(claim([]), nodes(), NOWHERE, id="selector-without-terms-nodes-known"),
        pytest.param(claim(GPU_NODES), None, ANYWHERE, id="labels"),
        pytest.param(claim(GPU_NODES), nodes(n1="yes"), (True, "n1", False), id="labels-of-the-pods-node"),
        pytest.param(claim(GPU_NODES), nodes(n1="yes", n3="yes"), ANYWHERE, id="labels-of-several-nodes"),
        pytest.param(claim(GPU_NODES), nodes(), NOWHERE, id="labels-of-no-node"),
    ],
)
def test_reach_of_a_claim_for_a_pod_on_a_node(found, known_nodes, wanted):
    reach = claim_reach(KEY, found, pod_node="n1", nodes=known_nodes)
    assert (reach.exists, reach.pinned_node, reach.other_nodes) == wanted
    assert reach.key == KEY


@pytest.mark.parametrize("known_nodes", [None, nodes()], ids=["nodes-unknown", "nodes-known"])
def test_a_pod_without_a_node_may_go_to_the_only_node_of_its_claim(known_nodes):
    reach = claim_reach(KEY, claim(by_name("n1")), pod_node="", nodes=known_nodes)
    assert (reach.pinned_node, reach.other_nodes) == ("n1", True)


def test_claims_from_templates_are_not_named():
    pod = msgspec.convert(
        {
            "metadata": {"namespace": "ns", "name": "web"},
            "spec": {
                "resourceClaims": [
                    {"name": "a", "resourceClaimName": "train"},
                    {"name": "b", "resourceClaimTemplateName": "one"},
                    {"name": "c", "resourceClaimName": "other"},
                ]
            },
        },
        MigrationPod,
    )
    assert named_claims(pod) == (("ns", "train"), ("ns", "other"))
