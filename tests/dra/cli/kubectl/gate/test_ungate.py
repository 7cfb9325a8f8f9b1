"""`kubectl dra ungate` against a server: the label goes first, then our gate, and nothing of others."""

import pytest

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.gate import ungate
from dra.cli.kubectl.gate.ungate import ungate_namespace
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import Request, Response
from localplane.objects import decode, encode
from localplane.schemas.builtin_schemas import Dialect
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.kube.virtual import seeded

OURS, FOREIGN = {"name": "reserve.dra/claim"}, {"name": "example.com/other"}
NAMESPACE = "/api/v1/namespaces/ml"
PODS = f"{NAMESPACE}/pods"
FORBIDDEN = encode({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "namespaces is forbidden"})

WEBHOOK = encode({"kind": "Status", "code": 500, "reason": "InternalError", "message": "failed calling webhook"})


class Transport(LocalTransport):
    """A way to the server that records the writes; it may refuse some, and act after the first list."""

    def __init__(self, server):
        super().__init__(server)
        self.writes = []
        self.forbids_namespaces = False
        self.fails = {}
        self.after_first_list = None

    async def send(self, request):
        if request.method == "PATCH":
            self.writes.append(request.path)
            if request.path in self.fails:
                return Response(status=self.fails[request.path], body=WEBHOOK, headers={})
            if self.forbids_namespaces and request.path == NAMESPACE:
                return Response(status=403, body=FORBIDDEN, headers={})
        answer = await super().send(request)
        if request.path == PODS and request.method == "GET" and self.after_first_list is not None:
            act, self.after_first_list = self.after_first_list, None
            await act()
        return answer


@pytest.fixture
async def server():
    api_server = ApiServer(api=Dialect.STOCK, random=seeded(1))
    labels = {"reserve.dra/gate": "enabled", "team": "vision"}
    await create(api_server, "/api/v1/namespaces", {"metadata": {"name": "ml", "labels": labels}})
    await create(api_server, f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    return api_server


@pytest.fixture
def transport(server):
    return Transport(server)


@pytest.fixture
def run(transport, monkeypatch):
    monkeypatch.setattr(ungate, "LABEL_SETTLES", 0.0)
    connection = Connection(client=Client(transport, RateLimiter(1e6, 1e6)), transport=transport)

    async def call(*, keep_label=False, dry_run=False):
        return await ungate_namespace(connection, "ml", keep_label=keep_label, dry_run=dry_run)

    return call


async def create(server, path, body):
    request = Request(method="POST", path=path, body=encode(body), content_type="application/json", timeout=5.0)
    assert (await server.handle(request)).status == 201


async def add_pod(server, name, *gates):
    spec = {"containers": [{"name": "main", "image": "x"}], "schedulingGates": list(gates)}
    await create(server, PODS, {"metadata": {"name": name}, "spec": spec})


async def read(server, path):
    return decode((await server.handle(Request(method="GET", path=path, timeout=5.0))).body)


async def gates(server):
    pods = (await read(server, PODS))["items"]
    return {pod["metadata"]["name"]: pod["spec"].get("schedulingGates", []) for pod in pods}


async def labels_of_namespace(server):
    return (await read(server, NAMESPACE))["metadata"]["labels"]


async def test_the_label_goes_first_and_gates_of_other_controllers_stay(server, transport, run):
    for name, its in {"ours": [OURS], "both": [FOREIGN, OURS], "theirs": [FOREIGN], "none": []}.items():
        await add_pod(server, name, *its)
    done = await run()
    assert await gates(server) == {"ours": [], "both": [FOREIGN], "theirs": [FOREIGN], "none": []}
    assert "reserve.dra/gate" not in await labels_of_namespace(server)
    assert (await labels_of_namespace(server))["team"] == "vision"
    assert transport.writes[0] == NAMESPACE
    assert (done.label_removed, sorted(name for _, name in done.pods.values()), done.left) == (
        True,
        ["both", "ours"],
        0,
    )


async def test_a_dry_run_changes_nothing_and_names_the_pods(server, run):
    await add_pod(server, "ours", OURS)
    done = await run(dry_run=True)
    assert (done.label_removed, [name for _, name in done.pods.values()]) == (True, ["ours"])
    assert await gates(server) == {"ours": [OURS]}
    assert "reserve.dra/gate" in await labels_of_namespace(server)


async def test_the_label_stays_on_request(server, run):
    await add_pod(server, "ours", OURS)
    done = await run(keep_label=True)
    assert (done.label_removed, len(done.pods)) == (False, 1)
    assert "reserve.dra/gate" in await labels_of_namespace(server)


async def test_pods_are_ungated_even_if_the_label_may_not_be_removed(server, transport, run):
    await add_pod(server, "ours", OURS)
    transport.forbids_namespaces = True
    done = await run()
    assert "namespaces is forbidden" in done.refused
    assert await gates(server) == {"ours": []}


@pytest.mark.parametrize("waiting", [[], ["ours"]], ids=["none", "one"])
async def test_a_pod_that_is_gated_while_the_removal_of_the_label_spreads_is_ungated(server, transport, run, waiting):
    for name in waiting:
        await add_pod(server, name, OURS)
    transport.after_first_list = lambda: add_pod(server, "late", OURS)
    done = await run()
    assert (await gates(server))["late"] == []
    assert done.left == 0


async def test_pods_that_are_gated_again_and_again_end_the_command(server, transport, run):
    """A policy of somebody else that adds our gate would keep the command busy for ever."""
    number = iter(range(100))

    async def another():
        await add_pod(server, f"pod-{next(number)}", OURS)
        transport.after_first_list = another

    await another()
    done = await run(keep_label=True)
    assert done.left == 1
    assert len(done.pods) == ungate.PASSES_MAX


async def test_a_webhook_that_fails_for_namespaces_keeps_no_pod_waiting(server, transport, run):
    await add_pod(server, "ours", OURS)
    transport.fails = {NAMESPACE: 500}
    done = await run()
    assert "failed calling webhook" in done.refused
    assert await gates(server) == {"ours": []}


@pytest.mark.parametrize("status", [403, 422, 500])
async def test_a_pod_that_cannot_be_changed_keeps_no_other_pod_waiting(server, transport, run, status):
    for name in ("a", "b", "c"):
        await add_pod(server, name, OURS)
    transport.fails = {f"{PODS}/a": status}
    done = await run()
    assert await gates(server) == {"a": [OURS], "b": [], "c": []}
    assert (done.left, len(done.pods)) == (1, 2)
    assert ["failed calling webhook" in error for error in done.pod_errors.values()] == [True]
