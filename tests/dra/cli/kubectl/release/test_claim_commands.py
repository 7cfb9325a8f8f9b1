"""A claim is given back from here, where no controller runs, by the controller's rules."""

import pytest

from dra.cli.kubectl.claim_commands import ReleaseOptions, ReleaseRefusedError, release_claim
from tests.dra.cli.kubectl.downgrade.conftest import NAMESPACE, Cluster

LEASE = ("dra-reserve", "dra-reserve-controller")
KEY = (NAMESPACE, "train")


@pytest.fixture
async def vanished():
    """A cluster in which the only pod of a claim went by force, while no controller ran."""
    cluster = Cluster()
    await cluster.start()
    node = {"metadata": {"name": "n1"}, "spec": {}}
    await cluster.request("POST", "/api/v1/nodes", node)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await cluster.request("PATCH", "/api/v1/nodes/n1/status", ready, patch=True)
    (pod,) = await cluster.add_pods("a", 1, claim="train")
    await cluster.add_claim("train", listed=[pod], guarded=False)
    await cluster.request("DELETE", cluster.path("pods", "a-0"), {"gracePeriodSeconds": 0})
    return cluster


async def given_back(cluster, within):
    options = ReleaseOptions(key=KEY, lease=LEASE, timeout=within, if_unused=True)
    return await release_claim(cluster.connection(), options, report=lambda _: None)


async def test_a_pod_that_vanished_is_given_the_time_in_which_its_kubelet_ends_it(vanished):
    """The command was printed right after a forced deletion, and freed the device under the pod's containers."""
    before = vanished.clock.now()
    assert await given_back(vanished, 240.0) == "claim ml/train: released"
    assert vanished.clock.now() - before >= 100.0


async def test_less_time_than_that_is_refused_with_the_reason(vanished):
    with pytest.raises(ReleaseRefusedError, match="vanished before a kubelet reported the end of their containers"):
        await given_back(vanished, 60.0)
    assert (await vanished.get_claim("train"))["status"]["allocation"]
