"""A Job on a server, and a claim that is reserved for it."""

import asyncio

import msgspec

from dra.engine.claims.workload_index import WorkloadKey
from dra.model.claims import ResourceClaim
from dra.model.workload_reservations import RESERVED_FOR, RESERVED_FOR_UID
from tests.controller.cluster import CLAIMS, JOBS
from tests.dra.engine.examples import JOB, NAMESPACE
from tests.dra.engine.examples import JOBS as KIND

TRAIN = WorkloadKey(KIND, NAMESPACE, "train")


def refer(cluster, world, reference=JOB):
    annotations = {RESERVED_FOR: f"{reference.group_resource}/{reference.name}", RESERVED_FOR_UID: reference.uid}
    raw = cluster.put(CLAIMS, NAMESPACE, "train", metadata={"annotations": annotations})
    world.observe_claim(msgspec.convert(raw, ResourceClaim), now=0.0)
    world.dirty.clear()


def job(cluster, name="train", *, uid=JOB.uid, **content):
    cluster.put(JOBS, NAMESPACE, name, metadata={"uid": uid}, **content)


async def settle(seconds=3.0):
    await asyncio.sleep(seconds)


def answer_reads(cluster, answer):
    """Have each read of the workload answered so; lists and watches go on."""
    plain = cluster.send

    async def send(request):
        return answer if request.path.endswith("/train") else await plain(request)

    cluster.send = send
