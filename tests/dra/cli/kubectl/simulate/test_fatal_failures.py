"""A pod that kube-scheduler gives up because of one node's devices waits, whatever other nodes offer."""

import pytest

from tests.dra.cli.kubectl.simulate.manifests import asking, manifest, using
from tests.dra.engine.diagnosis.cluster_states import DRIVER, claim, entry, node, offer, pod, snapshot

COLORED = {"attributes": {"color": {"string": "red"}}}


def bold():
    """Return a claim whose selector fails on devices without a color."""
    made = asking("c")
    selector = {"cel": {"expression": f"device.attributes['{DRIVER}'].color == 'red'"}}
    made["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [selector]
    return made


def every_device():
    made = asking("c")
    made["spec"]["devices"]["requests"][0]["exactly"] = {"deviceClassName": DRIVER, "allocationMode": "All"}
    return made


def colored(name):
    found = offer(name)
    found["spec"]["devices"] = [each | COLORED for each in found["spec"]["devices"]]
    return found


def disagreeing():
    """Return slices of one pool that name different numbers of slices."""
    first, second = offer("n1", 1, resourceSliceCount=2), offer("n1", 1, resourceSliceCount=1)
    second["metadata"]["name"], second["spec"]["devices"] = "n1-more", [{"name": "gpu-9"}]
    return [first, second]


GOOD = [colored("n2"), colored("n3")]


@pytest.mark.parametrize(
    ("wanted", "slices", "why"),
    [
        pytest.param(bold(), [offer("n1"), *GOOD], "no such key: color", id="selector-fails-on-one-device"),
        pytest.param(every_device(), [offer("n1", resourceSliceCount=2), *GOOD], "updated", id="incomplete-pool"),
        pytest.param(every_device(), [*disagreeing(), *GOOD], "updated", id="slices-disagree-on-their-number"),
        pytest.param(
            every_device(),
            [offer("n1") | {"spec": offer("n1")["spec"] | {"devices": [{"name": "d"}, {"name": "d"}]}}, *GOOD],
            "invalid",
            id="a-name-twice",
        ),
        pytest.param(every_device(), [offer("n1", 33), *GOOD], "33 devices", id="more-devices-than-a-claim-can-have"),
    ],
)
def test_a_failure_on_one_node_keeps_the_pod_from_all(simulate, wanted, slices, why):
    found = simulate(wanted, manifest("Pod", "p", using("c")), cluster=snapshot(slices=slices))
    assert not found["p"]["placed"]
    assert why in found["p"]["why"]


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param({"cordoned": True}, id="cordoned"),
        pytest.param({"cpu": "500m"}, id="full"),
        pytest.param({"taints": ({"key": "dedicated", "effect": "NoSchedule"},)}, id="tainted"),
    ],
)
def test_a_node_that_other_filters_refuse_is_not_asked(simulate, closed):
    nodes = [node("n1", **closed), node("n2")]
    cluster = snapshot(nodes=nodes, slices=[offer("n1"), colored("n2")])
    assert simulate(bold(), manifest("Pod", "p", using("c")), cluster=cluster)["p"]["node"] == "n2"


def test_devices_in_use_are_not_looked_at(simulate):
    held = claim("h", "n1/gpu-0", "n1/gpu-1", listed=(entry("x"),))
    cluster = snapshot(held, pods=(pod("x", "h", on="n1", phase="Running", started=True),), slices=[offer("n1"), *GOOD])
    assert simulate(bold(), manifest("Pod", "p", using("c")), cluster=cluster)["p"]["placed"]


def test_a_node_that_lacks_an_allocated_claim_is_asked(simulate):
    cluster = snapshot(claim("there", "n2/gpu-0"), slices=[offer("n1"), *GOOD])
    found = simulate(bold(), manifest("Pod", "p", using("there", "c")), cluster=cluster)
    assert "no such key: color" in found["p"]["why"]


def test_nobody_is_preempted_for_a_pod_that_is_given_up(simulate):
    weak = pod("weak", on="n2", phase="Running", started=True)
    weak["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "8"
    cluster = snapshot(pods=(weak,), nodes=[node("n1"), node("n2")], slices=[offer("n1"), colored("n2")])
    found = simulate(bold(), manifest("Pod", "p", using("c", priority=1000)), cluster=cluster)
    assert not found["p"]["placed"]
    assert "weak" not in str(found)
