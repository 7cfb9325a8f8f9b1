"""``kubectl dra wait``: claims and Reservations, as an API server has them."""

import json
from contextlib import asynccontextmanager

import pytest
from click.testing import CliRunner

from dra.cli.kubectl import connection
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.main import main
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import Response
from localplane.routes import Route
from localplane.server import ApiServer
from localplane.transport import LocalTransport

GROUP = "scheduling.koordinator.sh"
COLLECTION = f"/apis/{GROUP}/v1alpha1/reservations"


class Server:
    """An API server with one claim, and a Reservation in a phase, if there is one."""

    def __init__(self, phase):
        self._server = ApiServer()
        kinds = {each.name: each for each in self._server.catalog}
        self._server.registry.create(Route(kinds["Namespace"]), {"metadata": {"name": "ml"}})
        claim = {"metadata": {"name": "c", "namespace": "ml"}, "spec": {"devices": {}}}
        self._server.registry.create(Route(kinds["ResourceClaim"], namespace="ml"), claim)
        self._reservation = phase and {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": "r", "uid": "uid-r", "resourceVersion": "1"},
            "spec": {"template": {"spec": {"containers": []}}, "owners": [{"object": {"name": "p"}}]},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "False"}]},
        }

    async def handle(self, request):
        if not request.path.startswith(COLLECTION):
            return await self._server.handle(request)
        if request.path == COLLECTION:
            content = {"kind": "ReservationList", "metadata": {"resourceVersion": "1"}, "items": [self._reservation]}
        elif self._reservation:
            content = self._reservation
        else:
            details = {"name": "r", "group": GROUP, "kind": "reservations"}
            content = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
            content |= {"details": details, "message": 'reservations "r" not found'}
            return Response(404, {"content-type": "application/json"}, json.dumps(content).encode())
        return Response(200, {"content-type": "application/json"}, json.dumps(content).encode())


@pytest.fixture
def wait(monkeypatch):
    def run(*arguments, phase):
        @asynccontextmanager
        async def connect(_):
            transport = LocalTransport(Server(phase))
            yield Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)

        monkeypatch.setattr(connection, "connect", connect)
        return CliRunner().invoke(main, ["wait", *arguments])

    return run


@pytest.mark.parametrize(
    ("arguments", "phase", "code", "said"),
    [
        pytest.param("reservation/r", "Available", 0, f"reservation.{GROUP}/r available", id="available"),
        pytest.param("rsv r --for=ended", "Succeeded", 0, f"reservation.{GROUP}/r ended", id="ended"),
        pytest.param("reservation r --for=ended", "", 0, f"reservation.{GROUP}/r ended", id="deleted"),
        pytest.param(
            "reservation r", "Failed", 1, "reservation r: has ended (Failed), so it will not become", id="ended-before"
        ),
        pytest.param("reservation r --timeout=0s", "Pending", 1, "reservation r: not available\n", id="not-in-time"),
        pytest.param("reservation r", "", 2, "not found", id="not-there"),
        pytest.param(
            "reservation r --for=released",
            "Available",
            2,
            "for a reservation, use available, ended",
            id="of-claims",
        ),
        pytest.param(
            "claim c -n ml --for=ended",
            "",
            2,
            "for a claim, use released, allocated",
            id="of-reservations",
        ),
        pytest.param("claim c -n ml", "", 0, "resourceclaim.resource.k8s.io/c released", id="a-claim"),
        pytest.param(
            "claim c -n ml --for=allocated --timeout=0", "", 1, "claim ml/c: not allocated\n", id="checked-once"
        ),
        pytest.param(
            "claim c -n ml --for=allocated --timeout=10ms", "", 1, "claim ml/c: not allocated within 0.01 s", id="late"
        ),
        pytest.param("claim c -n ml --for=delete --timeout=0", "", 1, "claim ml/c: not deleted\n", id="not-deleted"),
        pytest.param("claim x -n ml --for=delete", "", 0, "resourceclaim.resource.k8s.io/x deleted", id="deleted"),
        pytest.param("claim c -n ml --for=condition=Released", "", 0, "c released", id="state-as-condition"),
        pytest.param("claim c -n ml --for=condition=Bound", "", 2, "claims have no conditions", id="of-no-claim"),
        pytest.param("claim c -n ml --for=jsonpath=.x", "", 2, "is not a condition; use released", id="no-condition"),
        pytest.param(
            "reservation/r --for=condition=Available",
            "Available",
            0,
            f"reservation.{GROUP}/r available",
            id="condition",
        ),
        pytest.param(
            "reservation/r --for=condition=ready=FALSE",
            "Pending",
            0,
            f"{GROUP}/r condition ready=false met",
            id="status",
        ),
        pytest.param(
            "reservation/r --for=condition=Ready --timeout=0", "Pending", 1, "r: not condition Ready\n", id="not-ready"
        ),
        pytest.param("reservation/r --for=delete --timeout=0", "Pending", 1, "r: not deleted\n", id="is-there"),
        pytest.param("reservation/r --for=delete", "", 0, f"reservation.{GROUP}/r deleted", id="is-gone"),
    ],
)
def test_what_is_waited_for(wait, arguments, phase, code, said):
    shown = wait(*arguments.split(), phase=phase)
    assert (shown.exit_code, said in shown.output) == (code, True), shown.output


def test_after_the_time_it_says_what_the_reservation_waits_for(wait):
    shown = wait("reservation/r", "--timeout=0s", phase="Pending")
    assert "reservation r: Pending" in shown.stderr
