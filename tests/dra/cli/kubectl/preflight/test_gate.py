"""The row of preflight about the gate: it offers the policy where many pods share a claim, and names the cost."""

import pytest

from dra.cli.kubectl.checklist import CheckState
from dra.cli.kubectl.preflight.gate import SHARING_PODS_MIN, GateUse, judge_gate, read_gate_use
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import Resource
from dra.kube.transport import Request
from localplane.objects import encode
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded
from tests.violations import for_each_case

POD = {"containers": [{"name": "main", "image": "x"}]}
SHARED = [{"name": "shared", "resourceClaimName": "shared"}]


@for_each_case(
    [
        pytest.param(GateUse(), CheckState.WARNING, "write the gate reserve.dra/claim into the pod", id="absent"),
        pytest.param(GateUse(version="v1beta1"), CheckState.WARNING, "Policy v1beta1: the gate by", id="beta"),
        pytest.param(GateUse(version="v1"), CheckState.WARNING, "is not installed: pods without the", id="none"),
        pytest.param(GateUse(version="v1", is_installed=True), CheckState.OK, "is installed", id="installed"),
        pytest.param(
            GateUse(version="v1", is_installed=True, labelled=("a", "b")), CheckState.OK, "namespaces a, b", id="asked"
        ),
        pytest.param(GateUse(version="v1", labelled=("a",)), CheckState.WARNING, "ask for it: a", id="deleted"),
        pytest.param(GateUse(version="v1", sharing=(("a", 80),)), CheckState.WARNING, "slower: 80 in a", id="offer"),
    ]
)
def test_states(use, state, said):
    row = judge_gate(use)
    assert (row.state, said in row.detail) == (state, True), row.detail


@pytest.mark.parametrize(
    "use", [GateUse(version="v1"), GateUse(version="v1", sharing=(("a", 80), ("b", 40)))], ids=["any", "some"]
)
def test_an_offer_says_what_the_gate_costs(use):
    remedy = judge_gate(use).remedy.text
    assert remedy.startswith("use --gate ")
    assert "none starts while no controller works" in remedy
    assert "one PATCH a pod" in remedy


class Serving:
    """A discovery of an API server that serves policies: the local plane has none."""

    async def resolve(self, kind):
        return Resource(kind.group, "v1", kind.resource, "Policy", namespaced=False)


@pytest.fixture
def server():
    return ApiServer(api=Dialect.STOCK, random=seeded(1))


async def create(server, path, body):
    request = Request(method="POST", path=path, body=encode(body), content_type="application/json", timeout=5.0)
    assert (await server.handle(request)).status == 201


async def fill(server, namespace, *, pods, annotations=None, labels=None, gates=()):
    await create(server, "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels or {}}})
    await create(server, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
    claim = {"metadata": {"name": "shared", "annotations": annotations or {}}, "spec": {}}
    await create(server, f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims", claim)
    for number in range(pods):
        spec = POD | {"resourceClaims": SHARED, "schedulingGates": list(gates)}
        pod = {"metadata": {"name": f"p-{number}"}, "spec": spec}
        await create(server, f"/api/v1/namespaces/{namespace}/pods", pod)


async def test_namespaces_whose_pods_share_a_workloads_claim_are_found(server):
    reserved = {"reserve.dra/reserved-for": "jobs.batch/train"}
    many = SHARING_PODS_MIN
    await fill(server, "many", pods=many, annotations=reserved)
    await fill(server, "few", pods=many - 1, annotations=reserved)
    await fill(server, "unreserved", pods=many)
    await fill(server, "malformed", pods=many, annotations={"reserve.dra/reserved-for": "?"})
    await fill(server, "gated", pods=many, annotations=reserved, gates=[{"name": "reserve.dra/claim"}])
    await fill(server, "asked", pods=many, annotations=reserved, labels={"reserve.dra/gate": "enabled"})
    use = await read_gate_use(Client(LocalTransport(server), RateLimiter(1e6, 1e6)), Serving())
    assert use.sharing == (("many", many),)
    assert (use.labelled, use.is_installed) == (("asked",), False)
