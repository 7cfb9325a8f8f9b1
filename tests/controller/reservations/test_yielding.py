"""Mode yielding: placeholders give way to the pods that the status names; all other gated pods lose their gate."""

from dra.api.configuration import PlaceholderMode
from localplane.fault_injection import Fault, FaultRule
from tests.controller.reservations.site import PODS, RESERVATIONS, Site

GATE = {"name": "reserve.dra/reservation"}


class Yielding(Site):
    """A cluster without an extender, whose node takes pods."""

    def __init__(self, **options):
        super().__init__(placeholders=PlaceholderMode.YIELDING, **options)

    async def __aenter__(self):
        for name in ("dra-reserve-placeholder", "dra-reserve-standby"):
            priority_class = {"metadata": {"name": name}, "value": -10}
            await self.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority_class)
        return await super().__aenter__()

    async def start_extender(self):
        await self.ask("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": None}})

    async def bind(self, name):
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
        await self.ask("POST", f"{PODS}/{name}/binding", binding)

    async def gated_pod(self, name, *, app):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        spec = {"containers": [container], "schedulingGates": [GATE]}
        return await self.ask("POST", PODS, {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec})

    async def gates_of(self, name):
        return (await self.ask("GET", f"{PODS}/{name}"))["spec"].get("schedulingGates", [])

    async def hold(self, name, cpu):
        """Make a reservation that has its node."""
        await self.reserve(name, cpu, allocateOnce=False)
        await self.settle()
        for pod in await self.pods():
            await self.bind(pod["metadata"]["name"])
        await self.settle()


async def test_the_status_names_an_owner_pod_before_its_gate_opens_and_a_stranger_goes_its_way():
    async with Yielding() as site:
        await site.hold("web", "4")
        await site.gated_pod("owner", app="web")
        await site.gated_pod("stranger", app="db")
        await site.settle(1)
        status = (await site.reservation("web"))["status"]
        assert [each["name"] for each in status["currentOwners"]] == ["owner"]
        owner = await site.ask("GET", f"{PODS}/owner")
        assert "scheduling.koordinator.sh/reservation-allocated" in owner["metadata"]["annotations"]
        assert await site.gates_of("stranger") == []


async def test_a_gate_stays_until_the_reservation_that_may_admit_its_pod_is_gone():
    async with Yielding() as site:
        await site.reserve("web", "4", allocateOnce=False)  # no node yet
        await site.gated_pod("owner", app="web")
        await site.settle(10)
        assert await site.gates_of("owner") == [GATE]
        await site.delete(f"{RESERVATIONS}/web")
        await site.settle(1)
        assert await site.gates_of("owner") == []


async def test_a_gate_that_could_not_be_removed_is_removed_later():
    rule = FaultRule(fault=Fault.REFUSED, component="controller", verb="patch", resource="pods", times=1)
    async with Yielding(rules=[rule]) as site:
        await site.gated_pod("stranger", app="db")
        await site.settle(1)
        assert await site.gates_of("stranger") == [GATE]
        await site.settle(5)
        assert await site.gates_of("stranger") == []
