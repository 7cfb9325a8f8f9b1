"""nodeFit in arbitration: the pods of waiting jobs are asked for where nodes are watched, and only if configured."""

import asyncio

import pytest

from tests.controller.migration.site import Site


class Fit:
    """Says that all pods of a name fit nowhere, and counts the questions."""

    def __init__(self, uids):
        self._uids = uids
        self.asked = 0

    async def unfit_pods(self, args):
        del args
        self.asked += 1
        return dict.fromkeys(self._uids, "pod ns/web-0: fits on no other node (nodeFit)")


async def until_decided(site, name):
    async with asyncio.timeout(60):
        while (status := await site.status(name)).get("phase") not in {"Failed", "Running"}:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.5)
    return status


@pytest.mark.parametrize(
    ("fields", "phase", "asks"),
    [
        pytest.param({"nodeFit": True}, "Failed", True, id="refused"),
        pytest.param({}, "Running", False, id="not-asked"),
        pytest.param({"nodeFit": True, "skipEvictionGates": ["NodeFit"]}, "Running", True, id="gate"),
    ],
)
async def test_a_pod_that_fits_nowhere_is_refused_before_its_job_begins(fields, phase, asks):
    async with Site(**fields) as site:
        pods = await site.workload()
        fit = Fit([pods[0]["metadata"]["uid"]])
        site.arbitration.node_fit = fit
        await site.run()
        await site.job("migration", "web-0")
        status = await until_decided(site, "migration")
        assert status["phase"] == phase
        assert bool(fit.asked) is asks
        if phase == "Failed":
            assert "fits on no other node (nodeFit)" in status["message"]


async def test_nobody_is_asked_while_no_job_waits():
    async with Site(nodeFit=True) as site:
        fit = site.arbitration.node_fit = Fit([])
        await site.workload()
        await site.run()
        await asyncio.sleep(5)
        assert not fit.asked
