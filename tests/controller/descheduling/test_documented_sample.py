"""The sample of Koordinator's release notes, repaired, carries rounds out: dry as it is written, and for real."""

import pytest

from dra.cli.descheduler_file import parse, repair_indentation
from tests.controller.descheduling.test_rounds import Descheduled
from tests.controller.migration.site import PODS
from tests.dra.cli.test_descheduler_file import SAMPLE


class Sampled(Descheduled):
    """A site whose descheduler has the configuration of a file."""

    def __init__(self, text):
        super().__init__(None)
        self.configured = parse(text, name="sample").descheduling

    async def restarted(self, name, *, restarts):
        container = {"name": "c", "restartCount": restarts, "ready": True, "image": "i", "imageID": "i"}
        await self.ask("PATCH", f"{PODS}/{name}/status", {"status": {"containerStatuses": [container]}})


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        pytest.param(repair_indentation(SAMPLE), [], id="dry-as-written"),
        pytest.param(
            repair_indentation(SAMPLE).replace("dryRun: true", "dryRun: false"), ["web-1"], id="without-dry-run"
        ),
    ],
)
async def test_a_pod_with_ten_restarts_is_migrated(text, moved, caplog):
    caplog.set_level("INFO")
    async with Sampled(text) as site:
        await site.workload()
        for name, restarts in (("web-0", 9), ("web-1", 10)):
            await site.restarted(name, restarts=restarts)
        await site.run()
        jobs = await site.jobs()
        assert [job["spec"]["podRef"]["name"] for job in jobs] == moved
        triggers = [job["metadata"]["annotations"]["koordinator.sh/evict-trigger"] for job in jobs]
        assert all(trigger.endswith("RemovePodsHavingTooManyRestarts") for trigger in triggers)
        assert "pod ns/web-1: leaves node n1 to node" in caplog.text
        assert "pod ns/web-0" not in caplog.text
