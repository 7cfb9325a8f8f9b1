"""What a real kube-apiserver 1.36 was seen to answer is answered here, too, word for word.

The exchanges are replayed in their order on one server, with the requests between them that were not recorded. Those
that are not claimed are named, each with its reason; nothing is left out silently.
"""

import asyncio
import json

import pytest

from dra.kube.transport import JSON, MERGE_PATCH, Request
from dra.model.releases import Release
from localplane.server import ApiServer
from tests.dra.kube.virtual import VirtualLoop
from tests.localplane.golden import begins, exchanges, lines
from tests.violations import assert_each

VIRTUAL_TIME = True

EXCHANGES = exchanges()

NOT_CLAIMED = {
    "version": "another server, another build",
    "version trailing slash": "likewise",
    "aggregated discovery": "the first groups are ones that we have not; its form is tested in test_discovery",
    "legacy /apis": "likewise",
    "unauthorized": "a matter of HTTP: test_http",
    "openapi v3 index": "hashes of documents",
    "claim: status.allocation immutable": "the refused value has the names of JSON, not those of Go's internal types",
    "claim spec immutable": "likewise",
}

SHOWN_IN_PART = {"watch Table"}
"""Only the first lines were recorded."""

OBJECTS = "/apis/demo.example.com/v1alpha1/namespaces/default/reservations"

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "reservations.demo.example.com"},
    "spec": {
        "group": "demo.example.com",
        "scope": "Namespaced",
        "names": {"plural": "reservations", "kind": "Reservation", "shortNames": ["rsv"], "categories": ["all"]},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.node"}],
                "additionalPrinterColumns": [
                    {"name": "GPUs", "type": "integer", "jsonPath": ".spec.gpus"},
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-validations": [{"rule": "self.gpus <= 8", "message": "at most 8"}],
                                "properties": {
                                    "gpus": {"type": "integer", "minimum": 1},
                                    "node": {"type": "string"},
                                },
                            },
                            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                        },
                    }
                },
            }
        ],
    },
}
"""Its body was cut."""


class Replay:
    """One server that goes through the recorded history."""

    def __init__(self):
        self.server = ApiServer(release=Release.V1_36)

    async def ask(self, method, path, body=None, *, content_type=JSON, accept=JSON, **query):
        raw = None if body is None else json.dumps(body).encode()
        request = Request(
            method=method, path=path, query=query, body=raw, content_type=content_type, accept=accept, timeout=5
        )
        return await self.server.handle(request)

    async def play(self, exchange, body):
        answer = await self.ask(
            exchange.method,
            exchange.path,
            body,
            content_type=exchange.headers.get("Content-Type", JSON),
            accept=exchange.headers.get("Accept", JSON),
            **exchange.query,
        )
        if hasattr(answer, "status"):
            return answer.status, answer.headers, answer.body.decode()
        return 200, {"content-type": answer.content_type}, await self._watched(answer, DURING.get(exchange.name))

    async def _watched(self, watch, meanwhile):
        task = asyncio.create_task(meanwhile(self)) if meanwhile else None
        text = b"".join([block async for block in watch.blocks]).decode()
        if task:
            await task
        return text

    async def patch(self, name, body):
        answer = await self.ask("PATCH", f"{OBJECTS}/{name}", body, content_type=MERGE_PATCH)
        assert answer.status == 200, answer.body
        return json.loads(answer.body)

    async def make(self, path, body):
        answer = await self.ask("POST", path, body)
        assert answer.status == 201, answer.body

    async def create(self, name, **metadata):
        body = {"apiVersion": "demo.example.com/v1alpha1", "kind": "Reservation", "spec": {"gpus": 1}}
        body["metadata"] = {"name": name, **metadata}
        answer = await self.ask("POST", OBJECTS, body)
        assert answer.status == 201, answer.body


EXPRESSION = (
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0 && '
    'device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.2.3"))'
)
CLASS = {"metadata": {"name": "gpu.example.com"}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}}
SLICE = {
    "metadata": {"name": "n1-gpu"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
    },
}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"annotations": {}, "name": "c1", "namespace": "default"},
    "spec": {
        "devices": {
            "requests": [
                {
                    "exactly": {
                        "deviceClassName": "gpu.example.com",
                        "selectors": [{"cel": {"expression": EXPRESSION}}],
                    },
                    "name": "g",
                }
            ]
        }
    },
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"annotations": {}, "name": "p1", "namespace": "default"},
    "spec": {
        "containers": [{"image": "pause", "name": "c", "resources": {"claims": [{"name": "g"}]}}],
        "resourceClaims": [{"name": "g", "resourceClaimName": "c1"}],
    },
}
STATUS = {
    "allocation": {
        "devices": {"results": [{"request": "g", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        },
        "allocationTimestamp": "2026-11-20T16:03:03Z",
    },
    "reservedFor": [{"resource": "pods", "name": "p1", "uid": "25a69138-83e6-4524-bb9f-72d5d0153b32"}],
}


async def _one_pod_on_one_claim(replay):
    """Make the cluster that the recording began with."""
    claims, devices = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", "/apis/resource.k8s.io/v1"
    await replay.make("/api/v1/nodes", {"metadata": {"name": "n1"}})
    await replay.make(f"{devices}/deviceclasses", CLASS)
    await replay.make(f"{devices}/resourceslices", SLICE)
    await replay.make(claims, _applied_as(CLAIM))
    await replay.make("/api/v1/namespaces/default/pods", _applied_as(POD))
    target = {"kind": "Node", "name": "n1"}
    await replay.make("/api/v1/namespaces/default/pods/p1/binding", {"metadata": {"name": "p1"}, "target": target})
    held = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    for path, body in (("", held), ("/status", {"status": STATUS})):
        answer = await replay.ask("PATCH", f"{claims}/c1{path}", body, content_type=MERGE_PATCH)
        assert answer.status == 200, answer.body


def _applied_as(obj):
    """Return an object as ``kubectl apply`` sends it."""
    text = json.dumps(obj, separators=(",", ":")).replace(">", "\\u003e").replace("&", "\\u0026") + "\n"
    note = {"kubectl.kubernetes.io/last-applied-configuration": text}
    return obj | {"metadata": obj["metadata"] | {"annotations": note}}


async def _four_gpus_and_w1(replay):
    await asyncio.sleep(0.5)
    await replay.patch("r1", {"spec": {"gpus": 4}})
    await replay.create("w1")
    await replay.ask("DELETE", f"{OBJECTS}/w1")


async def _finalizer(replay):
    await replay.patch("r1", {"metadata": {"finalizers": ["x.example.com/f"]}})


BEFORE = {
    "Table resourceclaims": _one_pod_on_one_claim,
    "DELETE with finalizer -> 200 object + deletionTimestamp": _finalizer,
}
"""What was done without being recorded, or is done in another way here."""

DURING = {"watch from RV": _four_gpus_and_w1}


def _stale(replay):
    found = replay.server.store.snapshot("reservations.demo.example.com")
    obj = json.loads(next(each.raw for each in found if each.key.name == "r1"))
    obj["metadata"]["resourceVersion"] = "1"
    return obj


BODIES = {"CRD": lambda _: DEFINITION, "PUT stale resourceVersion -> 409 Conflict": _stale}
"""Bodies that were cut."""


def _adapted(exchange, replay):
    """Return an exchange with revisions of this history in the place of the recorded ones."""
    if exchange.name == "watch from RV":
        exchange.query["resourceVersion"] = str(replay.server.store.revision)
    return exchange


@pytest.fixture(scope="module")
def answers():
    """Return what the whole history was answered with."""

    async def play():
        replay, found = Replay(), {}
        for name, exchange in EXCHANGES.items():
            if name in NOT_CLAIMED:
                continue
            if name in BEFORE:
                await BEFORE[name](replay)
            body = BODIES[name](replay) if name in BODIES else exchange.body
            found[name] = await replay.play(_adapted(exchange, replay), body)
        return found

    loop = VirtualLoop()
    try:
        return loop.run_until_complete(play())
    finally:
        loop.close()


def test_the_answer_is_that_of_the_real_server(answers):
    assert_each(
        [name for name in EXCHANGES if name not in NOT_CLAIMED],
        lambda name: check_answer(name, *answers[name]),
    )


def check_answer(name, status, headers, body):
    exchange = EXCHANGES[name]

    assert status == exchange.status, body
    assert headers["content-type"] == exchange.content_type
    assert headers.get("warning", "") == exchange.warning
    if exchange.content_type != JSON:
        assert body.strip() == exchange.answer.strip()
        return
    found, wanted = lines(body), lines(exchange.answer)
    if name not in SHOWN_IN_PART:
        assert len(found) == len(wanted), found
    assert len(found) >= len(wanted), found
    for one, other in zip(found, wanted, strict=False):
        assert begins(one, other), f"\nfound  {json.dumps(one)}\nwanted {json.dumps(other)}"


def test_what_is_not_claimed_was_recorded():
    assert NOT_CLAIMED.keys() <= EXCHANGES.keys()
