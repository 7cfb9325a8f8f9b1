"""One of several API servers does not serve Reservations yet: its 404 is no proof that an object is gone."""

import pytest

from tests.controller.reservations.site import Site
from tests.dra.kube.scripted import refusal

NOT_SERVED = refusal(404, "NotFound", "the server could not find the requested resource")


class Upgrading(Site):
    """A control plane that is being upgraded, as one component sees it."""

    def __init__(self, component):
        super().__init__()
        self._component = component
        self.lacking = ""
        """Method of the requests for single Reservations that reach the earlier version."""

    def client(self, component):
        transport, client = super().client(component)
        self.wrap(transport, component)
        return transport, client

    def wrap(self, transport, component):
        send = transport.send

        async def sent(request):
            if component == self._component and request.method == self.lacking and "/reservations/" in request.path:
                return NOT_SERVED
            return await send(request)

        transport.send = sent


@pytest.mark.parametrize("method", ["PATCH", "GET"])
async def test_the_extender_gives_away_nothing_of_a_reservation_that_one_server_does_not_know(method):
    async with Upgrading("extender") as site:
        await site.reserve("web", "10", allocateOnce=True, preAllocation=True)
        await site.place("web")
        site.lacking = method
        owner = await site.pod("owner", "9", app="web")
        await site.schedule(owner)
        stranger = await site.pod("stranger", "9")
        assert (await site.schedule(stranger))[0] is None
        site.lacking = ""
        await site.settle(5)
        assert (await site.schedule(stranger))[0] is None
        await site.schedule(owner)
        assert await site.node_of("owner") == "n1"


async def test_the_controller_does_not_forget_a_reservation_that_one_server_does_not_know():
    async with Upgrading("controller") as site:
        await site.reserve("web", "4", ttl="20s")
        await site.settle(5)
        site.lacking = "PATCH"
        await site.settle(30)
        site.lacking = ""
        await site.settle(60)
        assert (await site.reservation("web"))["status"]["phase"] == "Failed"
