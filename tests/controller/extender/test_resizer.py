"""The loop that resizes reservations, in a small cluster."""

from dra.engine.scheduling import resizing
from tests.controller.reservations.site import Site


async def test_an_error_of_ours_ends_neither_the_process_nor_other_resizes(monkeypatch):
    decide = resizing.decide

    def failing(cache, known, *, now):
        if known.name == "broken":
            raise TypeError("no such attribute")
        return decide(cache, known, now=now)

    monkeypatch.setattr(resizing, "decide", failing)
    async with Site() as site:
        for name in ("broken", "whole"):
            await site.reserve(name, "4", allocateOnce=False)
            await site.place(name)
        annotation = {"scheduling.koordinator.sh/reservation-resize-allocatable": '{"resources": {"cpu": "6"}}'}
        for name in ("broken", "whole"):
            path = f"/apis/scheduling.koordinator.sh/v1alpha1/reservations/{name}"
            await site.ask("PATCH", path, {"metadata": {"annotations": annotation}})
        await site.settle(2.5)
        assert (await site.reservation("whole"))["status"]["allocatable"] == {"cpu": "6"}
        assert (await site.reservation("broken"))["status"]["allocatable"] == {"cpu": "4"}
        assert site.extender.is_binding
        assert site.extender.metrics.registry.get_sample_value("dra_reserve_decision_failures_total") > 0
