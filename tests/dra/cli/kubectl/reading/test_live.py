"""What is read of a live cluster."""

import pytest

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.reading.live import Parts, Reader
from dra.engine.explain.snapshot import Presence
from dra.kube.client import Client
from dra.kube.limits import Limiter
from dra.local.plane import roster
from dra.local.plane.options import Options
from dra.local.plane.plane import Plane
from dra.local.schemas.structures import Dialect
from dra.local.transport import LocalTransport


@pytest.fixture
def plane(monkeypatch):
    """A plane without components."""
    monkeypatch.setattr(roster, "components", lambda *_, **__: {})
    return Plane(Options(api=Dialect.STOCK))


@pytest.mark.parametrize(
    ("beside", "presence"),
    [
        pytest.param({"controller": 7}, Presence.RUNNING, id="the-plane-has-a-controller"),
        pytest.param({}, Presence.ABSENT, id="it-has-none"),
    ],
)
async def test_the_controller_of_a_local_plane_has_no_lease_and_is_known_all_the_same(plane, beside, presence):
    plane.beside |= beside
    transport = LocalTransport(plane.way("kubectl"))
    connection = Connection(client=Client(transport, Limiter(1000.0, 1000)), transport=transport)
    snapshot = await Reader(connection, namespace=None, lease=("dra-reserve", "controller")).read(Parts.REST)
    assert snapshot.leader.presence is presence
