"""A claim on a server, what the world knows of it, and pods that use it: what writes are tried on."""

import msgspec

from dra.engine.claims.consumers import SCHEDULING_GATE
from dra.model.claims import ResourceClaim
from dra.model.pods import Pod
from tests.controller.cluster import CLAIMS, PODS, Cluster
from tests.dra.engine.examples import NAMESPACE
from tests.dra.kube.scripted import refusal

ALLOCATION = {"devices": {"results": [{"driver": "d", "pool": "p", "device": "gpu-0"}]}}
USES = [{"name": "gpu", "resourceClaimName": "train"}]


def with_an_allocated_claim():
    """Return a cluster with one."""
    found = Cluster()
    found.put(CLAIMS, NAMESPACE, "train", status={"allocation": ALLOCATION}, metadata={"finalizers": ["keep"]})
    return found


def served(cluster, world, name="train"):
    """Have the world take in what the server has; return the view."""
    world.observe_claim(msgspec.convert(cluster.objects[cluster.path(CLAIMS, NAMESPACE, name)], ResourceClaim), now=0.0)
    return world.view((NAMESPACE, name), now=0.0)


def pod(cluster, name, **content):
    """Put a pod that uses the claim on the server."""
    content.setdefault("spec", {"resourceClaims": USES})
    return msgspec.convert(cluster.put(PODS, NAMESPACE, name, **content), Pod)


def gated(cluster, name):
    """Put a pod that uses the claim and waits behind our gate on the server."""
    spec = {"resourceClaims": USES, "schedulingGates": [{"name": SCHEDULING_GATE}]}
    return pod(cluster, name, spec=spec)


def losing(cluster, *, answers, done=True):
    """Let so many writes have no answer; they are done, or not."""
    plain = cluster.send
    left = iter(range(answers))

    async def send(request):
        if request.method != "PATCH" or next(left, None) is None:
            return await plain(request)
        if done:
            await plain(request)
        else:
            cluster.requests.append(request)
        return refusal(500, "InternalError")

    cluster.send = send
