"""Asks a running kube-scheduler: puts questions into a cluster as objects, and reads back what it allocated.

Many questions are asked at once. Before their pods are made, a canary pod has been placed whose node, slice and claim
were made last: the scheduler has seen everything by then, so that its first answer to a pod is its answer.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Final

from tests.allocator import judge
from tests.allocator.objects import LABEL, Objects, alone, canary, device_classes, named, objects
from tests.cluster.cluster import Cluster
from tests.cluster.options import ClientLimits, Component, Options
from tests.scenarios import api as kubernetes
from tests.scenarios.api import Api, ApiError
from tests.scenarios.resources import CLAIMS, NODES, PODS, RESOURCE_SLICES

Json = dict[str, Any]

AT_ONCE: Final = 150
"""Questions in one batch."""

WITHIN: Final = 120.0
"""Seconds that a batch may take."""

INTERVAL: Final = 0.1

REFUSED: Final = (
    "cannot allocate all claims",
    "invalid resource pools were encountered",
    "asks for all devices, but resource pool",  # since 1.38; up to 1.37 that is a SchedulerError
)
"""What kube-scheduler says of a node whose devices do not do."""

NAMESPACE: Final = "allocator"

KUBERNETES: Final = "1.37"
"""The version whose answers `dra.engine.allocator` gives."""

GATES: Final = ("DRAListTypeAttributes", "DRAFractionalCapacityRange")
"""What questions with ``lists`` and those with ``fractional`` need beside the gates that are on by default."""

ADMIN_ACCESS: Final = "resource.kubernetes.io/admin-access"

UNLIMITED: Final = ClientLimits(qps=1000, burst=2000)


def cluster(kubernetes_version: str, *, feature_gates: dict[str, bool]) -> Cluster:
    """Return a cluster with a scheduler and neither kubelets nor controllers of claims, not started yet."""
    return Cluster(
        Options(
            kubernetes=kubernetes_version,
            controllers="clusterrole-aggregation-controller",
            scheduler_limits=UNLIMITED,
            feature_gates=feature_gates,
            apiserver_flags=("--disable-admission-plugins=ServiceAccount",),  # nobody would make one
            without=frozenset({Component.NODES}),
        )
    )


async def answers(server: Cluster, questions: dict[str, Json], tell: Callable[[str, Json, Any], None]) -> None:
    """Tell for each question its name, the question as a running cluster was asked it, and the answer."""
    async with kubernetes.connect(server.admin_kubeconfig) as api:
        metadata = {"name": NAMESPACE, "labels": {ADMIN_ACCESS: "true"}}
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        for each in device_classes(next(iter(questions.values()))["classes"]):
            await api.create(each)
        async for name, question, answer in ask(api, questions, namespace=NAMESPACE):
            tell(name, question, answer)


async def ask(api: Api, questions: dict[str, Json], *, namespace: str) -> AsyncIterator[tuple[str, Json, Any]]:
    """Yield for each question its name, the question as it was asked, and the answer in `judge`'s form.

    A question that the API server refuses has the refusal as its answer. The `device_classes` are there; claims stay.
    """
    for number, names in enumerate(_batches(questions)):
        asked = {name: named(questions[name], name, namespace=namespace) for name in names}
        answers = await _batch(api, namespace, f"canary-{number}-{names[0]}", asked)
        for name in names:
            yield name, asked[name], answers[name]


def _batches(questions: dict[str, Json]) -> Iterator[Sequence[str]]:
    many = [name for name, each in questions.items() if not alone(each)]
    yield from (many[start : start + AT_ONCE] for start in range(0, len(many), AT_ONCE))
    yield from ([name] for name, each in questions.items() if alone(each))


async def _batch(api: Api, namespace: str, bird: str, asked: dict[str, Json]) -> dict[str, Any]:
    turn = asyncio.Semaphore(kubernetes.AT_ONCE)
    refusals: dict[str, Any] = {}

    async def make_one(name: str) -> Objects:
        made = objects(asked[name], name)
        async with turn:
            try:
                await make(api, namespace, made)
            except ApiError as error:
                refusals[name] = f"refused by the API server: {error}"
        return made

    everything = await asyncio.gather(*map(make_one, asked))
    last = canary(bird)
    await make(api, namespace, last)
    try:
        await api.create(last.pod, namespace=namespace)
        await _settled(api, namespace, {bird: 1}, within=WITHIN)
        waiting = {name: made for name, made in zip(asked, everything, strict=True) if name not in refusals}
        await api.create_all((made.pod for made in waiting.values()), namespace=namespace)
        answers = await _settled(
            api, namespace, {name: len(made.claims) for name, made in waiting.items()}, within=WITHIN
        )
    finally:
        await _clear(api, namespace)
    return refusals | answers


async def make(api: Api, namespace: str, made: Objects) -> None:
    for each in (*made.nodes, *made.slices):
        await api.create(each)
    for claim, allocation in made.held:
        await api.create(claim, namespace=namespace)
        name = claim["metadata"]["name"]
        status = {"status": {"allocation": allocation}}
        await api.patch(CLAIMS, name, status, namespace=namespace, subresource="status")
    for claim in made.claims:
        await api.create(claim, namespace=namespace)


async def _settled(api: Api, namespace: str, wanted: dict[str, int], *, within: float) -> dict[str, Any]:
    """Return the answers as soon as all are there: `wanted` has how many claims the pod of each question has."""
    deadline = asyncio.get_running_loop().time() + within
    theirs = f"{LABEL} in ({','.join(wanted)})"
    answers: dict[str, Any] = {}
    while wanted:
        late = asyncio.get_running_loop().time() >= deadline
        pods = await api.all(PODS, namespace=namespace, labelSelector=theirs)
        claims = await api.all(CLAIMS, namespace=namespace, labelSelector=theirs)
        mine: dict[str, list[Json]] = {}
        for claim in claims:
            if "-held-" not in claim["metadata"]["name"]:
                mine.setdefault(claim["metadata"]["labels"][LABEL], []).append(claim)
        for pod in pods:
            name = pod["metadata"]["name"]
            if name in wanted:
                found = _answer(pod, mine[name])
                if found is not None or late:
                    answers[name] = f"no answer: {pod['status']}" if found is None else found
        if answers.keys() == wanted.keys():
            break
        await asyncio.sleep(INTERVAL)
    return answers


def _answer(pod: Json, claims: list[Json]) -> Any:
    """Return what a scheduler has answered to a pod; None as long as it has not.

    A pod that waits for the binding conditions of its devices is not bound, but its claims are allocated.
    """
    allocated = [each.get("status", {}).get("allocation") for each in claims]
    if all(allocated):
        return [judge.form(each) for each in allocated]
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False" and not any(allocated):
            if condition["reason"] == "SchedulerError":
                return judge.GIVEN_UP
            if any(text in condition["message"] for text in REFUSED):
                return judge.NO
            return f"{condition['reason']}: {condition['message']}"
    return None


async def _clear(api: Api, namespace: str) -> None:
    """Delete what the next batch would see: claims stay, their devices are gone."""
    await api.delete_collection(PODS, namespace=namespace, grace_seconds=0)
    for resource in (RESOURCE_SLICES, NODES):
        await api.request("DELETE", resource.path(), query={"labelSelector": LABEL}, limit=kubernetes.UNLIMITED)
