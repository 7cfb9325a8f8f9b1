"""Whatever a client sends: the answer is a Status or a page of text, never a fault of ours, and the server lives on."""

import asyncio
import json

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra.kube.transport import Request, Response
from localplane.server import ApiServer

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

NAMES = st.one_of(
    st.sampled_from(["a", "b", "default", "kube-system", "A", "", ".", "..", "%2e", "a/b", "\0", "🙂", "x" * 300]),
    st.text(max_size=8),
)
PLACES = st.sampled_from(
    [
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/secrets",
        "/api/v1/namespaces/default/events",
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "/apis/batch/v1/namespaces/default/jobs",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        "/apis/resource.k8s.io/v1/resourceslices",
        "/apis/resource.k8s.io/v1/deviceclasses",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    ]
)
PARTS = st.sampled_from(["", "/status", "/scale", "/binding", "/eviction", "/finalize", "/nope"])
PATHS = st.one_of(
    PLACES,
    st.builds(lambda place, name, part: f"{place}/{name}{part}", PLACES, NAMES, PARTS),
    st.builds(lambda parts: "/" + "/".join(parts), st.lists(NAMES, max_size=6)),
    st.sampled_from(["/api", "/apis", "/apis/apps", "/apis/apps/v1", "/version", "/readyz", "/openapi/v3", "//", ""]),
)
WORDS = st.one_of(
    st.sampled_from(
        [
            "",
            "0",
            "1",
            "-1",
            "abc",
            "true",
            "99999999999999999999",
            "All",
            "!!",
            "a=b",
            "a in (",
            "a,b",
            "x" * 2000,
            "metadata.name=a",
            "Exact",
            "NotOlderThan",
            "Strict",
            "Foreground",
            "Orphan",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
        ]
    ),
    st.text(max_size=12),
)
QUERIES = st.dictionaries(
    st.sampled_from(
        [
            "limit",
            "continue",
            "labelSelector",
            "fieldSelector",
            "resourceVersion",
            "resourceVersionMatch",
            "dryRun",
            "fieldManager",
            "fieldValidation",
            "gracePeriodSeconds",
            "propagationPolicy",
            "orphanDependents",
            "sendInitialEvents",
            "includeObject",
            "pretty",
            "force",
        ]
    ),
    WORDS,
    max_size=3,
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), WORDS)
KEYS = st.one_of(
    st.sampled_from(
        [
            "apiVersion",
            "kind",
            "metadata",
            "spec",
            "status",
            "data",
            "name",
            "namespace",
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "resourceVersion",
            "uid",
            "generateName",
            "containers",
            "template",
            "devices",
            "requests",
            "exactly",
            "preconditions",
            "names",
            "versions",
            "schema",
            "target",
            "op",
            "path",
            "value",
            "from",
        ]
    ),
    st.text(max_size=5),
)
JSON_VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=25,
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "name": st.one_of(NAMES, SCALARS),
        "generateName": st.one_of(NAMES, SCALARS),
        "namespace": st.one_of(st.just("default"), SCALARS),
        "labels": JSON_VALUES,
        "annotations": JSON_VALUES,
        "finalizers": JSON_VALUES,
        "ownerReferences": JSON_VALUES,
        "resourceVersion": SCALARS,
        "managedFields": JSON_VALUES,
        "deletionTimestamp": SCALARS,
    },
)
OBJECTS = st.fixed_dictionaries(
    {"metadata": METADATA}, optional={"spec": JSON_VALUES, "status": JSON_VALUES, "data": JSON_VALUES}
)
BODIES = st.one_of(
    st.none(),
    st.binary(max_size=60),
    JSON_VALUES.map(lambda value: json.dumps(value).encode()),
    OBJECTS.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(
        [
            b"[" * 100_000,
            b"[" * 5_000 + b"]" * 5_000,
            b'{"a":' * 900 + b"1" + b"}" * 900,
            b'{"metadata":{"name":"deep"},"data":' + b'{"a":' * 150 + b"1" + b"}" * 152,
            b'{"metadata":{"name":"\\ud800"}}',
            b'{"metadata":{"name":"n"},"spec":1e999}',
            b'{"metadata":{"name":"n","labels":{"a":123456789012345678901234567890}}}',
            b"a: &a [*a]",
            b"a: " + b"{a: " * 3000,
            b"? [a]\n: b\n",
            b"--- \n...\n",
            b"\xff\xfe",
            b"k8s\x00\n\x0a",
        ]
    ),
)
TYPES = st.one_of(
    st.none(),
    st.sampled_from(
        [
            "application/json",
            "application/yaml",
            "application/json; charset=utf-8",
            "application/vnd.kubernetes.protobuf",
            "application/merge-patch+json",
            "application/json-patch+json",
            "application/strategic-merge-patch+json",
            "application/apply-patch+yaml",
            "text/plain",
            ";;",
            "",
        ]
    ),
)
ACCEPTED = st.one_of(
    st.sampled_from(
        [
            "application/json",
            "*/*",
            "",
            "text/html",
            "application/json;as=Table;g=meta.k8s.io;v=v1",
            ",;=,",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            "application/json;as=Table;v=v9",
        ]
    ),
    st.text(max_size=20),
)
REQUESTS = st.builds(
    Request,
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"]),
    path=PATHS,
    query=QUERIES,
    body=BODIES,
    content_type=TYPES,
    accept=ACCEPTED,
    timeout=st.just(1.0),
)


@EXAMPLES
@given(requests=st.lists(REQUESTS, min_size=1, max_size=8))
def test_every_request_has_an_answer_that_is_no_fault_of_ours(requests):
    asyncio.run(_ask_all(requests))


async def _ask_all(requests):
    server = ApiServer()
    for request in requests:
        answer = await server.handle(request)
        if not isinstance(answer, Response):
            await answer.blocks.aclose()
            continue
        if answer.status == 500 and (request.content_type or "").startswith("application/strategic"):
            assert "reason" not in json.loads(answer.body)  # so says the real one to patches that contradict themselves
            continue
        assert answer.status < 500 or answer.status == 504, (request, answer)
        if answer.status >= 400 and answer.headers["content-type"] == "application/json":
            status = msgspec.json.decode(answer.body)
            assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", answer.status)
            assert isinstance(status["message"], str)
    healthy = await server.handle(Request(method="GET", path="/api/v1/namespaces/default", timeout=1))
    assert healthy.status in (200, 404)


@EXAMPLES
@given(query=QUERIES, accept=ACCEPTED)
def test_every_watch_begins_or_is_refused(query, accept):
    asyncio.run(_watch(query | {"watch": "1", "timeoutSeconds": "1"}, accept))


async def _watch(query, accept):
    request = Request(method="GET", path="/api/v1/namespaces", query=query, accept=accept, timeout=1)
    answer = await ApiServer().handle(request)
    if isinstance(answer, Response):
        assert 400 <= answer.status < 500 or answer.status == 504
        return
    try:
        async with asyncio.timeout(0.01):
            async for block in answer.blocks:
                assert all(json.loads(line)["type"] for line in block.splitlines())
    except TimeoutError:
        await answer.blocks.aclose()


def _pod_spec():
    return {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "g"}]}}],
        "resourceClaims": [{"name": "g", "resourceClaimName": "x"}],
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    }


def _template():
    return {"metadata": {"labels": {"a": "b"}}, "spec": _pod_spec() | {"restartPolicy": "Never"}}


SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
DEVICES = {
    "requests": [
        {"name": "r", "exactly": {"deviceClassName": "c", "count": 1, "selectors": [{"cel": {"expression": "true"}}]}}
    ],
    "constraints": [{"requests": ["r"], "matchAttribute": "a/b"}],
    "config": [{"requests": ["r"], "opaque": {"driver": "d", "parameters": {"a": 1}}}],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "n": {"type": "integer", "minimum": 1, "default": 2},
                "l": {"type": "array", "items": {"type": "string"}},
            },
            "x-kubernetes-validations": [{"rule": "self.n < 5", "message": "m"}],
        }
    },
}
VALID = {
    "/api/v1/namespaces": {},
    "/api/v1/nodes": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "1"}}},
    "/api/v1/namespaces/default/pods": {"spec": _pod_spec()},
    "/api/v1/namespaces/default/configmaps": {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}, "immutable": False},
    "/api/v1/namespaces/default/secrets": {"data": {"a": "ZA=="}, "stringData": {"b": "c"}, "type": "Opaque"},
    "/api/v1/namespaces/default/events": {"involvedObject": {"kind": "Pod", "namespace": "default"}, "reason": "r"},
    "/apis/batch/v1/namespaces/default/jobs": {"spec": {"parallelism": 1, "completions": 2, "template": _template()}},
    "/apis/apps/v1/namespaces/default/deployments": {
        "spec": {
            "replicas": 1,
            "selector": SELECTOR,
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": _pod_spec()},
        }
    },
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "spec": {"holderIdentity": "x", "leaseDurationSeconds": 5}
    },
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims": {"spec": {"devices": DEVICES}},
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates": {"spec": {"spec": {"devices": DEVICES}}},
    "/apis/resource.k8s.io/v1/deviceclasses": {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
    "/apis/resource.k8s.io/v1/resourceslices": {
        "spec": {
            "driver": "d",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "g", "attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}}],
        }
    },
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
        "spec": {
            "group": "x.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": SCHEMA},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                    },
                    "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
                    "selectableFields": [{"jsonPath": ".spec.n"}],
                }
            ],
        }
    },
}
"""Objects that are accepted as they are; a mutation of one gets much further than what is random from the start."""


def _places(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*path, index))


def _replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replaced(copy[path[0]], path[1:], new)
    return copy


PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@st.composite
def _mutants(draw):
    place = draw(st.sampled_from(sorted(VALID)))
    name = "things.x.example.com" if place.endswith("customresourcedefinitions") else "n"
    obj = {"metadata": {"name": name, "labels": {"a": "b"}, "annotations": {}}} | VALID[place]
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(list(_places(obj))[1:]))
        obj = _replaced(obj, path, draw(st.one_of(SCALARS, JSON_VALUES)))
    return place, name, obj


@EXAMPLES
@given(mutants=st.lists(_mutants(), min_size=2, max_size=4), method=st.sampled_from(["PUT", *PATCHES]))
def test_an_object_that_is_nearly_right_is_taken_or_refused(mutants, method):
    asyncio.run(_ask_all(list(_life(mutants, method))))


def _life(mutants, method):
    for place, name, obj in mutants:
        good = {"metadata": {"name": name}} | VALID[place]
        yield _request("POST", place, obj)
        yield _request("POST", place, good)
        yield _request(method if method == "PUT" else "PATCH", f"{place}/{name}", obj, PATCHES.get(method))
        yield _request("PATCH", f"{place}/{name}/status", obj, "application/merge-patch+json")
        thing = {"apiVersion": "x.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": obj.get("spec")}
        yield _request("POST", "/apis/x.example.com/v1/namespaces/default/things", thing)
        yield _request("GET", place, accept="application/json;as=Table;g=meta.k8s.io;v=v1")
        yield _request("DELETE", f"{place}/{name}")


def _request(method, path, body=None, content_type=None, accept="application/json"):
    raw = None if body is None else json.dumps(body).encode()
    return Request(
        method=method,
        path=path,
        body=raw,
        content_type=content_type or "application/json",
        accept=accept,
        query={"force": "true", "fieldManager": "m"} if method == "PATCH" else {},
        timeout=1.0,
    )
