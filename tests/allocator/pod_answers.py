"""Asks `kubectl dra simulate` and a running kube-scheduler about the same pods, and compares the answers.

Of a batch all objects are made first, but for the pods. Then the cluster is read and simulated as the command does it,
and only then the pods are made. A canary pod shows, as in `placing`, that the scheduler has seen everything.
"""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any, Final

import msgspec

from dra.cli.kubectl.simulate.simulated_manifests import parse_manifests
from dra.cli.kubectl.simulate.simulation import PodOutcome, Verdict, simulate_scheduling
from dra.engine.diagnosis.snapshot import DiagnosedSnapshot, Snapshot
from dra.model.claims import DELETE_PROTECTION
from tests.allocator import placing, pod_fields, pod_questions
from tests.allocator.cases import Json
from tests.allocator.objects import LABEL, Objects, canary, device_classes, named, objects
from tests.cluster.cluster import Cluster
from tests.scenarios import api as kubernetes
from tests.scenarios import simulated
from tests.scenarios.api import Api
from tests.scenarios.resources import CLAIMS, DEVICE_TAINT_RULES, NODES, PODS, RESOURCE_SLICES

FILE: Final = Path(__file__).parent / "pod_answers.jsonl.gz"
"""Recorded answers of kube-scheduler, each with its question: a generator that changes leaves these as they are."""

NAMESPACE: Final = "pods"

STRANGER: Final = {"resource": "pods", "name": "stranger", "uid": "00000000-0000-4000-8000-000000000001"}
"""A pod that uses an allocated claim: no scheduler takes the allocation back."""

PLACED, REFUSED, FAILED = "placed", "refused", "failed"
"""Answers: the pod has a node, none is suitable, the scheduler gave up with an error."""


@dataclass(frozen=True)
class Compared:
    """What both say of the pod of a question."""

    seed: int
    question: Json
    told: PodOutcome
    answer: str
    node: str = ""
    """The node that kube-scheduler has chosen, if that is known."""
    message: str = ""

    @property
    def differ(self) -> bool:
        """Return whether one places the pod, and the other does not; `simulate` may leave it open."""
        if self.told.verdict is Verdict.UNDECIDED:
            return False
        return self.fits is not (self.answer == PLACED)

    @property
    def fits(self) -> bool:
        """Return whether `simulate` says that the pod would be scheduled."""
        return self.told.verdict is Verdict.SCHEDULED

    def __str__(self) -> str:
        """Return the question and both answers."""
        ours = f"{self.told.verdict} {self.told.node or self.told.reason} {self.told.unsimulated or ''}"
        theirs = f"{self.answer} {self.node}{self.message}"
        return f"{self.seed}: {json.dumps(self.question)}\n  upstream: {theirs}\n  simulate: {ours}"


def named_question(seed: int, asked: Json) -> tuple[str, Json]:
    """Return the name of a question, and the question with all its objects `named` so."""
    name = f"q{seed}"
    found = named(asked, name, namespace=NAMESPACE)
    pools = {each["spec"]["pool"]["name"] for each in asked["slices"]}
    for node in found["nodes"]:
        meta = node["metadata"]
        meta["name"] = f"{name}-{meta['name']}"
        meta["labels"] = {key: f"{name}-{value}" for key, value in meta["labels"].items()} | {LABEL: name}
    for rule in found["rules"]:
        rule["metadata"]["name"] = f"{name}-{rule['metadata']['name']}"
        selector = rule["spec"]["deviceSelector"]
        selector["pool"] = f"{name}-{selector['pool']}" if selector["pool"] in pools else selector["pool"]
    found["pinned"] = f"{name}-{asked['pinned']}" if asked["pinned"] else ""
    return name, found


def made(asked: Json, name: str) -> tuple[Objects, list[Json], dict[str, Json]]:
    """Return the objects of a question, its DeviceTaintRules, and the status of each claim that is allocated."""
    found = objects(asked, name)
    found.nodes[:] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": each["metadata"],
            "spec": each["spec"],
            "status": {key: {"memory": "256Gi", "pods": "110"} | each["room"] for key in ("capacity", "allocatable")},
        }
        for each in asked["nodes"]
    ]
    rules = [
        {"apiVersion": DEVICE_TAINT_RULES.api_version, "kind": DEVICE_TAINT_RULES.kind, **each}
        | {"metadata": each["metadata"] | {"labels": {LABEL: name}}}
        for each in {rule["metadata"]["name"]: rule for rule in asked["rules"]}.values()
    ]
    statuses = {}
    if asked["pinned"]:
        here = {"key": "metadata.name", "operator": "In", "values": [asked["pinned"]]}
        first = found.claims[0]
        first["metadata"]["finalizers"] = [DELETE_PROTECTION]
        request = first["spec"]["devices"]["requests"][0]
        parts = [request["name"], *(each["name"] for each in request.get("firstAvailable", ())[:1])]
        result = {"request": "/".join(parts), "driver": "other.example", "pool": name, "device": "d"}
        selector = {"nodeSelectorTerms": [{"matchFields": [here]}]}
        allocation = {"nodeSelector": selector, "devices": {"results": [result]}}
        if asked["timed"]:
            allocation["allocationTimestamp"] = "2026-11-28T11:00:00Z"
        statuses[first["metadata"]["name"]] = {"allocation": allocation, "reservedFor": [STRANGER]}
    return found, rules, statuses


def snapshot(questions: Mapping[int, Json]) -> Snapshot:
    """Return the cluster of some questions as the command would read it, before their pods are there."""
    content: dict[str, Any] = {
        "taken": "2026-11-28T12:00:00Z",
        "server": f"v{placing.KUBERNETES}.0",
        **{field: [] for field in ("claims", "pods", "nodes", "slices", "rules", "templates", "priorities", "budgets")},
        "classes": device_classes(pod_questions.device_classes()),
        "runtimeClasses": [pod_fields.RUNTIME_CLASS],
    }
    for name, asked in starmap(named_question, questions.items()):
        found, rules, statuses = made(asked, name)
        held = [claim | {"status": {"allocation": allocation}} for claim, allocation in found.held]
        claims = [each | {"status": statuses.get(each["metadata"]["name"], {})} for each in found.claims]
        content["claims"] += [_stored(each) for each in (*held, *claims)]
        content["nodes"] += [_stored(each) for each in found.nodes]
        content["slices"] += [_stored(each) for each in found.slices]
        content["rules"] += [_stored(each) for each in rules]
        content["pods"] += map(_stored, pod_fields.resident_manifests(asked, name))
    return msgspec.convert(content, DiagnosedSnapshot)


def _stored(found: Json) -> Json:
    meta = found["metadata"]
    return found | {"metadata": {"uid": f"uid-{meta['name']}", "resourceVersion": "1", "namespace": NAMESPACE} | meta}


def told(cluster: Snapshot, questions: Mapping[int, Json]) -> dict[str, PodOutcome]:
    """Return what `kubectl dra simulate` says of the pods of some questions."""
    pods = [pod_questions.manifest(asked, name) for name, asked in starmap(named_question, questions.items())]
    outcomes = simulate_scheduling(cluster, parse_manifests(pods, namespace=NAMESPACE)).outcomes
    return {each.pod.metadata.name: each for each in outcomes if each.is_from_manifests}


def batches(questions: Mapping[int, Json]) -> Iterator[dict[int, Json]]:
    """Yield the questions that one cluster is asked at once."""
    seeds = list(questions)
    for start in range(0, len(seeds), placing.AT_ONCE):
        yield {seed: questions[seed] for seed in seeds[start : start + placing.AT_ONCE]}


async def compare(server: Cluster, questions: Mapping[int, Json]) -> AsyncIterator[Compared]:
    """Yield how the answers to each question compare. Raises ApiError."""
    async with kubernetes.connect(server.admin_kubeconfig) as api:
        labels = {placing.ADMIN_ACCESS: "true"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
        await api.create(namespace)
        for each in (*device_classes(pod_questions.device_classes()), pod_fields.RUNTIME_CLASS):
            await api.create(each)
        for batch in batches(questions):
            for each in await _batch(api, server.admin_kubeconfig, batch):
                yield each


async def _batch(api: Api, kubeconfig: Path, asked_now: dict[int, Json]) -> list[Compared]:
    questions = {seed: named_question(seed, asked) for seed, asked in asked_now.items()}
    turn = asyncio.Semaphore(kubernetes.AT_ONCE)

    async def make(name: str, asked: Json) -> None:
        found, rules, statuses = made(asked, name)
        async with turn:
            await placing.make(api, NAMESPACE, found)
            for each in (*rules, *pod_fields.resident_manifests(asked, name)):
                await api.create(each, namespace=NAMESPACE)
            for claim, status in statuses.items():
                await api.patch(CLAIMS, claim, {"status": status}, namespace=NAMESPACE, subresource="status")

    await asyncio.gather(*(make(name, asked) for name, asked in questions.values()))
    bird = canary(f"canary-{min(questions)}")
    await placing.make(api, NAMESPACE, bird)
    try:
        await api.create(bird.pod, namespace=NAMESPACE)
        await _settled(api, {bird.pod["metadata"]["name"]})
        nodes = [each["metadata"]["name"] for each in await api.all(NODES)]
        outcomes = told(await simulated.look(kubeconfig, nodes=nodes), asked_now)
        pods = [pod_questions.manifest(asked, name) for name, asked in questions.values()]
        await api.create_all(iter(pods), namespace=NAMESPACE)
        answers = await _settled(api, {name for name, _ in questions.values()})
    finally:
        await api.delete_collection(PODS, namespace=NAMESPACE, grace_seconds=0)
        for resource in (RESOURCE_SLICES, NODES, DEVICE_TAINT_RULES):
            await api.request("DELETE", resource.path(), query={"labelSelector": LABEL}, limit=kubernetes.UNLIMITED)
    return [Compared(seed, asked, outcomes[name], *answers[name]) for seed, (name, asked) in questions.items()]


async def _settled(api: Api, names: set[str]) -> dict[str, tuple[str, str, str]]:
    """Return for each pod the answer, the node and the message, as soon as the scheduler has answered all."""
    deadline = asyncio.get_running_loop().time() + placing.WITHIN
    while True:
        pods = [each for each in await api.all(PODS, namespace=NAMESPACE) if each["metadata"]["name"] in names]
        claims = await api.all(CLAIMS, namespace=NAMESPACE)
        reserved = {entry["uid"] for each in claims for entry in each.get("status", {}).get("reservedFor", ())}
        answers = {each["metadata"]["name"]: _answer(each, reserved) for each in pods}
        known = {name: answer for name, answer in answers.items() if answer is not None}
        if known.keys() == names:
            return known
        if asyncio.get_running_loop().time() >= deadline:
            raise TimeoutError(f"no answer to {sorted(names - known.keys())}")
        await asyncio.sleep(placing.INTERVAL)


def _answer(pod: Json, reserved: set[str]) -> tuple[str, str, str] | None:
    """Return what a scheduler has answered to a pod; None as long as it has not.

    A pod that waits for the binding conditions of its devices is not bound, but its claims are reserved for it.
    """
    node = pod["spec"].get("nodeName", "")
    if node or pod["metadata"]["uid"] in reserved:
        return PLACED, node, ""
    for each in pod["status"].get("conditions", ()):
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return (FAILED if each["reason"] == "SchedulerError" else REFUSED), "", each["message"]
    return None


def record(questions: Mapping[int, Json], answers: Iterable[Compared]) -> None:
    """Write the answers of kube-scheduler with their questions, so that tests can compare without it."""
    with gzip.GzipFile(FILE, "wb", mtime=0) as file:
        for each in sorted(answers, key=lambda compared: compared.seed):
            question = {name: part for name, part in questions[each.seed].items() if name != "classes"}
            file.write(json.dumps([each.seed, each.answer, question], separators=(",", ":")).encode() + b"\n")


def recorded() -> Iterator[tuple[int, tuple[Json, str]]]:
    """Yield the seeds of the recorded questions, each with the question and its answer: all of them take 60 MiB."""
    classes = {"classes": pod_questions.device_classes()}
    with gzip.open(FILE, "rt", encoding="ascii") as file:
        for seed, answer, question in map(json.loads, file):
            yield seed, (question | classes, answer)
