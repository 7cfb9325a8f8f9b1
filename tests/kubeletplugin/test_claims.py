import asyncio
import gc
import json
import tracemalloc

import pytest

from dra.kube.errors import ResponseTooLarge
from dra.model.claims import DeviceRequestAllocationResult
from kubeletplugin.claims import MAX_CONCURRENT_READS, MAX_PARAMETERS_SIZE, MAX_SIZE, USUAL_SIZE, ClaimReader
from kubeletplugin.contract import ClaimIdentity, OpaqueParameters, PodIdentity, PrepareError, PrepareRequest
from tests.dra.kube.scripted import REFUSED, Handling, Scripted, client_of, ok, refusal
from tests.kubeletplugin.fakes import DRIVER, claim
from tests.violations import for_each_case

VIRTUAL_TIME = True

CLAIM = claim("a")
RESULT = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}


def stored(name="a", *, uid=None, results=(RESULT,), config=(), allocated=True):
    allocation = {"devices": {"results": list(results), "config": list(config)}}
    metadata = {"name": name, "namespace": "ml", "uid": uid or f"uid-{name}"}
    return {"metadata": metadata, "status": {"allocation": allocation} if allocated else {}}


def opaque(source, *requests, driver=DRIVER, parameters=None):
    parameters = parameters if parameters is not None else {"of": source}
    return {"source": source, "requests": list(requests), "opaque": {"driver": driver, "parameters": parameters}}


async def read(transport, *claims):
    reader = ClaimReader(client_of(transport), driver=DRIVER, pools=lambda: ["n1"])
    return await reader.read(claims or [CLAIM])


async def read_one(transport):
    return (await read(transport))[CLAIM.uid]


async def test_a_claim_is_read_by_name_and_nothing_else_is_asked_for():
    transport = Scripted(ok(stored()))
    asked = await read_one(transport)
    assert asked.claim == CLAIM
    assert [r.device for r in asked.results] == ["gpu-0"]
    assert [(r.method, r.path, r.query) for r in transport.requests] == [
        ("GET", "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/a", {})
    ]


async def test_the_pods_of_a_claim_are_known_and_a_workload_is_none():
    body = stored()
    body["status"]["reservedFor"] = [
        {"resource": "pods", "name": "p", "uid": "uid-p"},
        {"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": "uid-j"},
    ]
    asked = await read_one(Scripted(ok(body)))
    assert asked.pods == (PodIdentity(name="p", uid="uid-p"),)


async def test_each_claim_is_read_once_and_several_at_a_time():
    under_way = asyncio.Barrier(MAX_CONCURRENT_READS)

    async def answer(request):
        await under_way.wait()  # nobody gets past it alone
        return ok(stored(request.path.rpartition("/")[2]))

    transport = Handling(answer)
    claims = [claim(f"c{n}") for n in range(3 * MAX_CONCURRENT_READS)]
    answers = await read(transport, *claims, *claims)
    assert len(transport.requests) == len(claims)
    assert {uid: a.claim for uid, a in answers.items()} == {c.uid: c for c in claims}


async def test_all_calls_together_read_no_more_at_a_time_than_one():
    under_way, most = 0, 0

    async def answer(request):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.1)
        under_way -= 1
        return ok(stored(request.path.rpartition("/")[2]))

    reader = ClaimReader(client_of(Handling(answer)), driver=DRIVER, pools=lambda: ["n1"])
    await asyncio.gather(*(reader.read([claim(f"c{n}")]) for n in range(3 * MAX_CONCURRENT_READS)))
    assert most == MAX_CONCURRENT_READS


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(refusal(404), "does not exist; a pod that uses it cannot start", id="gone"),
        pytest.param(
            ok(stored(uid="other")),
            "was deleted, and another claim has its name (uid other); "
            "delete the pod, which was created for the old claim",
            id="another-of-that-name",
        ),
        pytest.param(
            ok(stored(allocated=False)),
            "is not allocated; if this persists, delete the pod, which was bound without devices",
            id="not-allocated",
        ),
        pytest.param(
            ok(stored(results=[{**RESULT, "driver": "x.y"}])), f"has no device of driver {DRIVER}", id="another-driver"
        ),
        pytest.param(ok(stored(results=[])), f"has no device of driver {DRIVER}", id="no-devices"),
        pytest.param(
            ok(stored(results=[{**RESULT, "pool": "n2"}])),
            f"its devices of driver {DRIVER} are in pool n2, but this node has pool n1; "
            "delete the pod, which was bound to the wrong node",
            id="another-node",
        ),
        pytest.param(
            ok(stored(config=[opaque("FromClaim", parameters=[1])])),
            f"its opaque parameters for driver {DRIVER} are not an object: [1]",
            id="parameters-of-no-form",
        ),
        pytest.param(
            refusal(403, "Forbidden", "no relationship found between node and claim"),
            "cannot be read: ResourceClaim ml/a: no relationship found between node and claim; the kubelet retries",
            id="forbidden",
        ),
    ],
)
async def test_a_claim_that_does_not_fit_is_refused_with_what_to_do(answer, text):
    refused = await read_one(Scripted(answer))
    assert isinstance(refused, PrepareError)
    assert str(refused) == f"claim ml/a (uid uid-a): {text}"


async def test_a_bad_claim_does_not_fail_the_others():
    bad = ClaimIdentity(key=("ml", "../x"), uid=claim("b").uid)
    answers = await read(Handling(lambda _: ok(stored())), bad, CLAIM)
    assert "not a DNS subdomain" in str(answers[bad.uid])
    assert isinstance(answers[CLAIM.uid], PrepareRequest)


@pytest.mark.parametrize("config", [{"opaque": "x"}, {"opaque": 3}, {"source": [], "opaque": {"driver": DRIVER}}])
async def test_what_no_server_says_of_a_claim_is_told_of_that_claim_alone(config, caplog):
    bad = claim("b")
    answers = await read(
        Handling(lambda asked: ok(stored("b", config=[config]) if asked.path.endswith("/b") else stored())), bad, CLAIM
    )
    assert str(answers[bad.uid]).startswith(str(bad))
    assert isinstance(answers[CLAIM.uid], PrepareRequest)
    assert ("cannot be parsed" in str(answers[bad.uid])) == ("cannot be parsed" in caplog.text)


async def test_a_server_that_cannot_be_reached_is_asked_again_and_then_named():
    assert isinstance(await read_one(Scripted(REFUSED, ok(stored()))), PrepareRequest)
    refused = await read_one(Handling(lambda _: REFUSED))
    assert "cannot be read" in str(refused)
    assert "the kubelet retries" in str(refused)


async def test_a_silent_server_is_not_waited_for_as_long_as_the_kubelet_does():
    async def silence(_):
        await asyncio.sleep(3600)

    start = asyncio.get_running_loop().time()
    refused = await read_one(Handling(silence))
    assert asyncio.get_running_loop().time() - start <= 20
    assert isinstance(refused, PrepareError)


async def test_only_results_of_this_driver_and_node_are_handed_on():
    mixed = [RESULT, {**RESULT, "driver": "x.y", "device": "d"}, {**RESULT, "device": "gpu-1", "request": "s/t"}]
    asked = await read_one(Scripted(ok(stored(results=mixed))))
    assert [(r.request, r.device) for r in asked.results] == [("r", "gpu-0"), ("s/t", "gpu-1")]


async def test_parameters_of_the_class_come_before_those_of_the_claim_and_only_ours_come():
    config = [
        opaque("FromClaim", "r", parameters={"n": 1}),
        opaque("FromClass", "r", parameters={"n": 2}),
        opaque("FromClass", driver="x.y"),
        {"source": "FromClaim", "requests": []},
        opaque("FromClaim", parameters={"n": 3}),
        opaque("FromClass", "s", parameters={"n": 4}),
    ]
    asked = await read_one(Scripted(ok(stored(config=config))))
    assert [c.parameters["n"] for c in asked.configuration] == [2, 4, 1, 3]


CLAIMS_OF_A_POD = 25
BRACES = {"x": [{}] * 3380}
"""Ten kilobytes, the maximum of an entry, which take more than 200 in Python."""


def respond(request, name, **content):
    """The claim, as a transport passes it on: no longer than asked for."""
    answer = ok(stored(name, **content))
    return ResponseTooLarge(request.path, request.max_bytes) if len(answer.body) > request.max_bytes else answer


async def read_pod(config):
    """Let a call read all claims of a pod; return the answers, the bytes that stay, and the most there were."""

    def answer(request):
        return respond(request, request.path.rpartition("/")[2], config=config)

    transport = Handling(answer)
    claims = [claim(f"c{n}") for n in range(CLAIMS_OF_A_POD)]
    await read(transport, *claims[:1])  # decoders are made once
    gc.collect()
    tracemalloc.start()
    try:
        answers = await read(transport, *claims)
        transport.requests.clear()
        gc.collect()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return list(answers.values()), kept, peak


async def test_parameters_of_other_drivers_take_no_memory():
    answers, kept, peak = await read_pod([opaque("FromClaim", driver="x.y", parameters=BRACES)] * 32)
    assert {a.configuration for a in answers} == {()}
    assert kept < CLAIMS_OF_A_POD * 4096
    assert peak < 4 * 32 * len(json.dumps(BRACES))


async def test_parameters_for_the_driver_stay_as_small_as_they_were_sent():
    fitting = [opaque("FromClaim", parameters=BRACES)] * (MAX_PARAMETERS_SIZE // len(json.dumps(BRACES)))
    answers, kept, _ = await read_pod(fitting)
    assert {a.configuration[-1].parameters == BRACES for a in answers} == {True}
    assert kept < CLAIMS_OF_A_POD * (MAX_PARAMETERS_SIZE + 8192)


async def test_more_parameters_than_a_driver_could_need_are_refused_with_what_to_remove():
    answers, kept, _ = await read_pod([opaque("FromClaim", parameters=BRACES)] * 32)
    text = (
        f"its opaque parameters for driver {DRIVER} have {32 * len(json.dumps(BRACES))} bytes, the maximum is 65536; "
        "remove entries that no request needs from spec.devices.config of the claim and of its DeviceClass"
    )
    assert {str(a).partition(": ")[2] for a in answers} == {text}
    assert kept < CLAIMS_OF_A_POD * 4096


async def test_large_claims_are_read_one_at_a_time():
    large = [opaque("FromClaim", driver="x.y", parameters={"x": "x" * USUAL_SIZE})]
    under_way, most = 0, 0

    async def answer(request):
        nonlocal under_way, most
        if request.max_bytes > USUAL_SIZE:
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.1)
            under_way -= 1
        return respond(request, request.path.rpartition("/")[2], config=large)

    answers = await read(Handling(answer), *(claim(f"c{n}") for n in range(CLAIMS_OF_A_POD)))
    assert {type(a) for a in answers.values()} == {PrepareRequest}
    assert most == 1


async def test_a_claim_that_is_too_large_is_refused_with_what_to_do():
    huge = [opaque("FromClaim", driver="x.y", parameters={"x": "x" * MAX_SIZE})]
    refused = (await read(Handling(lambda request: respond(request, "a", config=huge))))[CLAIM.uid]
    assert str(refused).endswith(
        "cannot be read: ResourceClaim ml/a: the response is longer than 8 MiB; remove annotations, labels or "
        "parameters from the claim"
    )


@for_each_case(
    [
        pytest.param((), "r", True, id="for-all"),
        pytest.param(("r",), "r", True, id="by-name"),
        pytest.param(("s",), "r", False, id="for-another"),
        pytest.param(("r",), "r/big", True, id="a-subrequest-of-it"),
        pytest.param(("r/big",), "r/big", True, id="that-subrequest"),
        pytest.param(("r/small",), "r/big", False, id="another-subrequest"),
        pytest.param(("r/big",), "r", False, id="only-a-subrequest"),
    ]
)
def test_parameters_apply_to_the_requests_they_name(requests, request_, applies):
    one = OpaqueParameters(requests=requests, parameters={"x": 1})
    assert one.applies_to(request_) is applies
    asked = PrepareRequest(claim=CLAIM, results=(), configuration=(one,))
    assert asked.parameters_of(DeviceRequestAllocationResult(request=request_)) == (({"x": 1},) if applies else ())
