"""Writes of the controller on reservations: made on the version that was decided on, and not again at every event."""

import pytest

from dra.engine.reservations import lifecycle
from dra.engine.reservations.reservation_cache import CREATE_BACKOFF
from localplane.fault_injection import Fault, FaultRule
from tests.controller.reservations.site import PODS, RESERVATIONS, Site
from tests.dra.kube.scripted import refusal

LATE = {"fault": Fault.DELAY, "component": "controller", "seconds": 3.0}
STATUS = {"verb": "patch", "resource": "reservations.*/status"}


@pytest.mark.parametrize("at", [20.2, 21.0, 22.0])
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(FaultRule(**LATE, verb="delete", resource="pods", after=True), id="while-its-placeholder-goes"),
        pytest.param(FaultRule(**LATE, **STATUS), id="while-the-write-is-on-its-way"),
        pytest.param(FaultRule(**LATE, **STATUS, after=True), id="while-the-answer-is-on-its-way"),
    ],
)
async def test_a_reservation_is_over_or_extended_and_never_ends_after_a_person_has_extended_it(rule, at):
    async with Site(rules=[rule]) as site:
        await site.reserve("web", "4", ttl="20s")
        await site.settle(at)
        extended = await site.ask("PATCH", f"{RESERVATIONS}/web", {"spec": {"ttl": "3600s"}})
        await site.settle(10)
        phases = [each.get("status", {}).get("phase", "Pending") for each in (extended, await site.reservation("web"))]
        assert phases[0] == phases[1]
        assert len(await site.pods()) == (1 if phases[1] == "Pending" else 0)


class Refusing(Site):
    """Refuses each placeholder, as a quota does, and notes when one was to be created."""

    def __init__(self):
        super().__init__()
        self.tried = []

    def client(self, component):
        transport, client = super().client(component)
        send = transport.send

        async def refuse(request):
            if component == "controller" and (request.method, request.path) == ("POST", PODS):
                self.tried.append(self.clock.now())
                return refusal(403, "Forbidden", "exceeded quota: pods")
            return await send(request)

        transport.send = refuse
        return transport, client


async def test_a_refused_placeholder_is_created_again_after_a_pause_whatever_happens_meanwhile():
    async with Refusing() as site:
        await site.reserve("web", "4")
        for number in range(40):
            await site.settle(0.1)
            await site.ask("PATCH", f"{RESERVATIONS}/web", {"metadata": {"labels": {"n": str(number)}}})
        pauses = [later - earlier for earlier, later in zip(site.tried, site.tried[1:], strict=False)]
        assert min(pauses) >= CREATE_BACKOFF[0]
        assert (await site.reservation("web"))["status"]["conditions"]


async def test_an_internal_error_in_a_decision_is_counted_and_the_reservation_goes_on(monkeypatch):
    decide, failures = lifecycle.decide, iter([AssertionError("a bug")])

    def broken(*given, **named):
        for error in failures:
            raise error
        return decide(*given, **named)

    monkeypatch.setattr(lifecycle, "decide", broken)
    async with Site() as site:
        await site.reserve("web", "4")
        assert (await site.place("web"))["status"]["phase"] == "Available"
        assert site.metrics.registry.get_sample_value("dra_reserve_decision_failures_total") == 1
