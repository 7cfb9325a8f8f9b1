"""Owners that come while the placeholder of their reservation is still on the node."""

import pytest

from dra.engine.scheduling.verbs import VACATE_TIMEOUT
from tests.controller.reservations.site import Site

VIRTUAL_TIME = True
VACATING = "the pod's reservation is on another node, where its placeholder is still being deleted"


async def just_available(site):
    """A reservation whose placeholder is bound and not deleted yet, as no controller runs."""
    await site.reserve("r", "10")
    await site.settle()
    await site.stop_controller()
    bound = await site.turn()
    await site.settle()
    ((_, node),) = bound.items()
    return node


async def asked(site, app, names):
    pod = await site.pod(f"p-{app}", "8", app=app)
    return await site.call("filter", {"Pod": pod, "NodeNames": names})


@pytest.mark.parametrize(
    ("app", "left_out", "expected"),
    [
        pytest.param("r", True, [], id="an-owner-waits"),
        pytest.param("r", False, ["its own"], id="unless-kube-scheduler-finds-room-for-both"),
        pytest.param("other", True, ["other"], id="a-stranger-does-not"),
    ],
)
async def test_an_owner_is_not_placed_beside_its_reservation_for_coming_early(app, left_out, expected):
    async with Site(nodes={"n1": "16", "n2": "16"}) as site:
        node = await just_available(site)
        other = "n1" if node == "n2" else "n2"
        told = await asked(site, app, [other] if left_out else ["n1", "n2"])
        assert told["NodeNames"] == [{"other": other, "its own": node}[each] for each in expected]
        assert set(told["FailedNodes"].values()) <= {VACATING}


async def test_nobody_waits_for_a_placeholder_that_stays():
    async with Site(nodes={"n1": "16", "n2": "16"}) as site:
        node = await just_available(site)
        other = "n1" if node == "n2" else "n2"
        pod = await site.pod("p", "8", app="r")
        call = {"Pod": pod, "NodeNames": [other]}
        assert (await site.call("filter", call))["NodeNames"] == []
        await site.settle(VACATE_TIMEOUT + 2)
        touched = {each["metadata"]["name"]: each["metadata"].get("annotations") for each in await site.pods()}
        assert "reserve.dra/look-again" in touched["p"]
        assert (await site.call("filter", call))["NodeNames"] == [other]
