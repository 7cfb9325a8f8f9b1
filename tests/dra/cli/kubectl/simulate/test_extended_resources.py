"""Pods whose extended resources are served by devices, as kube-scheduler allocates these."""

import pytest

from dra.cli.kubectl.simulate.simulated_manifests import Manifests
from dra.cli.kubectl.simulate.simulation import simulate_scheduling
from tests.dra.cli.kubectl.simulate.manifests import manifest, placed
from tests.dra.engine.diagnosis.cluster_states import DRIVER, claim, entry, node, offer, pod, snapshot

GPU = "example.com/gpu"
IMPLICIT = f"deviceclass.resource.kubernetes.io/{DRIVER}"


def container(name, count=0, resource=GPU, **more):
    return {"name": name, "resources": {"limits": {resource: count} if count else {}}} | more


def cluster(*claims, **more):
    found = snapshot(*claims, **more)
    (only,) = found.classes
    return type(found)(
        **{name: getattr(found, name) for name in found.__struct_fields__}
        | {"classes": (type(only)(only.metadata, type(only.spec)(only.spec.selectors, None, GPU)),)}
    )


def run(simulate, spec, state=None, name="p"):
    return simulate(manifest("Pod", name, spec), cluster=state or cluster())[name]


@pytest.mark.parametrize(
    ("spec", "devices"),
    [
        pytest.param({"containers": [container("c", 2)]}, 2, id="one-container"),
        pytest.param({"containers": [container("c", 1, IMPLICIT)]}, 1, id="the-implicit-name"),
        pytest.param({"containers": [container("a", 1), container("b", 1)]}, 2, id="two-containers"),
        pytest.param({"containers": [container("c", 3)]}, 0, id="more-than-a-node-has"),
        pytest.param(
            {"initContainers": [container("i", 2), container("j", 1)], "containers": [container("c", 1)]},
            2,
            id="init-containers-use-the-devices-of-later-ones",
        ),
        pytest.param(
            {
                "initContainers": [container("s", 1, restartPolicy="Always"), container("i", 1)],
                "containers": [container("c", 1)],
            },
            2,
            id="a-sidecar-has-devices-of-its-own",
        ),
        pytest.param(
            {
                "initContainers": [container("i", 1), container("s", 1, restartPolicy="Always")],
                "containers": [container("c", 1)],
            },
            2,
            id="a-sidecar-that-starts-after-an-init-container",
        ),
        pytest.param({"containers": [container("a", 1), container("b", 1, IMPLICIT)]}, 2, id="both-names-of-a-class"),
    ],
)
def test_a_pod_gets_devices_for_its_extended_resources(simulate, spec, devices):
    found = run(simulate, spec)
    assert found["placed"] is bool(devices)
    assert len(found["devices"]) == devices


def test_devices_that_are_held_are_named_and_not_given_again(simulate):
    state = cluster(*(claim(f"h{n}", f"n{n}/gpu-0", f"n{n}/gpu-1", listed=(entry(f"x{n}"),)) for n in (1, 2, 3)))
    found = run(simulate, {"containers": [container("c", 1)]}, state)
    assert not found["placed"]
    assert "cannot allocate all claims" in found["why"]
    assert "Insufficient" not in found["why"]


def test_a_node_with_a_device_plugin_serves_the_resource_itself(simulate):
    plugged = node("n1")
    plugged["status"]["allocatable"][GPU] = "4"
    state = cluster(nodes=[plugged], slices=[offer("n1")])
    assert run(simulate, {"containers": [container("c", 3)]}, state)["devices"] == []


def test_a_resource_that_no_class_serves_is_the_nodes(simulate):
    found = run(simulate, {"containers": [container("c", 1, "example.com/other")]})
    assert "Insufficient example.com/other" in found["why"]


def test_a_server_without_the_feature_does_not_serve_it(simulate):
    state = cluster()
    older = type(state)(**{name: getattr(state, name) for name in state.__struct_fields__} | {"server": "v1.35.4"})
    assert "Insufficient example.com/gpu" in run(simulate, {"containers": [container("c", 1)]}, older)["why"]


def test_each_pod_has_a_claim_of_its_own(simulate):
    pods = [manifest("Pod", f"p{n}", {"containers": [container("c", 1)]}) for n in range(7)]
    assert len(placed(simulate(*pods, cluster=cluster()))) == 6


def test_the_claim_of_an_earlier_attempt_is_used_again():
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "w", "uid": "uid-w", "controller": True}
    made = claim(
        "w-extended-resources-abcde",
        "n2/gpu-0",
        annotations={"resource.kubernetes.io/extended-resource-claim": "true"},
        ownerReferences=[owner],
    )
    waiting = pod("w")
    waiting["spec"]["containers"] = [{"name": "c", "resources": {"requests": {GPU: "1"}}}]
    state = cluster(made, pods=(waiting,))
    (outcome,) = simulate_scheduling(state, Manifests()).outcomes
    assert (outcome.node, [each.metadata.name for each in outcome.claims]) == ("n2", [made["metadata"]["name"]])


def test_a_pod_with_claims_cannot_be_bound_where_a_device_plugin_serves_the_resource(simulate):
    """kube-scheduler makes a claim without requests for it, and fails to write that into the pod's status."""
    plugged = node("n1")
    plugged["status"]["allocatable"][GPU] = "4"
    state = cluster(claim("c", count=1), nodes=[plugged], slices=[offer("n1")])
    spec = {"containers": [container("c", 1)], "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    assert "nil or empty request mappings" in run(simulate, spec, state)["why"]


@pytest.mark.parametrize(
    ("cost", "count"),
    [
        pytest.param({"overhead": {"perPod": "3"}}, 2, id="overhead"),
        pytest.param({"mapping": {"deviceMultiplier": "3"}}, 2, id="mapping"),
        pytest.param({"mapping": {"deviceMultiplier": "9"}}, 0, id="more-than-the-node-has"),
    ],
)
def test_what_devices_of_extended_resources_take_of_their_node_is_not_given_again(simulate, cost, count):
    costly = offer("n1", devices=0)
    costly["spec"]["devices"] = [{"name": f"gpu-{i}", "nodeAllocatableResources": {"cpu": cost}} for i in range(4)]
    state = cluster(nodes=[node("n1")], slices=[costly])
    pods = [manifest("Pod", f"p{n}", {"containers": [container("c", 1)]}) for n in range(4)]
    assert len(placed(simulate(*pods, cluster=state))) == count
