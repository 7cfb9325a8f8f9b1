"""People ask before and after: the dry run, the answers to migrations that wait, and why a pod was moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.scenarios import plugin_of_kubectl
from tests.scenarios.api import Api, Json
from tests.scenarios.descheduling.conftest import RunProfile
from tests.scenarios.descheduling.test_rounds import WITHIN, jobs, start_on
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.reservations.migrations import pods_of
from tests.scenarios.target import Target

DUPLICATES: Final = """
migration: {maxMigratingPerNode: 0, maxMigratingPerWorkload: 50%, maxUnavailablePerWorkload: 50%}
profiles:
- name: p
  plugins: {balance: {enabled: [{name: RemoveDuplicates}]}}
"""


async def asked(target: Target, *arguments: str) -> Json:
    """Return what a command of ``kubectl dra`` prints as JSON."""
    _, text = await plugin_of_kubectl.dra(target.admin, *arguments, "--output=json")
    found: Json = json.loads(text)
    return found


def uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


async def test_a_dry_run_names_the_pods_that_a_round_would_move_and_moves_none(
    moving: Api, target: Target, profile: RunProfile, tmp_path: Path
) -> None:
    before = uids(await start_on(moving, "node-0", "web", replicas=3))
    file = tmp_path / "d.yaml"
    file.write_text(DUPLICATES)
    with profile("balance", "RemoveDuplicates", dryRun=True):
        found = await asked(target, "deschedule", "--dry-run", f"--config={file}")
        going = found["items"]
        assert going, found
        assert {each["from"] for each in going} == {"node-0"}
        assert {each["to"] for each in going} <= {"node-1", "node-2"}
        assert {each["plugin"] for each in going} == {"RemoveDuplicates"}
        pod = going[0]["metadata"]["name"]
        _, told = await plugin_of_kubectl.dra(
            target.admin, "explain", f"pod/{pod}", "-n", "default", f"--config={file}"
        )
        assert "would move the pod" in told
        assert uids(await pods_of(moving, "web")) == before
        assert await jobs(moving) == []


@pytest.mark.long
async def test_migrations_wait_for_a_person_and_end_as_the_person_says(
    moving: Api, target: Target, profile: RunProfile
) -> None:
    """The pod of a rejected job stays, and the next round asks for another one."""
    before = uids(await start_on(moving, "node-0", "web", replicas=3))
    with profile("balance", "RemoveDuplicates", migration={"approval": "Required", "defaultJobTTL": "10m"}):
        (first,) = await eventually(lambda: jobs(moving), within=WITHIN, saying="a job waits")

        async def all_stay() -> bool:
            return uids(await pods_of(moving, "web")) == before and len(await jobs(moving)) == 1

        await steadily(all_stay, lasting=6.0, saying="nothing moves without an answer")
        name = first["metadata"]["name"]
        _, told = await plugin_of_kubectl.dra(target.admin, "migrations", "--output=wide")
        assert "waits for approval" in told
        assert "RemoveDuplicates" in told
        assert (await asked(target, "migrations", name))["metadata"]["name"] == name
        assert (await plugin_of_kubectl.dra(target.admin, "reject", name))[0] == 0
        assert (await plugin_of_kubectl.dra(target.admin, "approve", name))[0] == 1  # it has ended

        async def others() -> list[Json]:
            return [job for job in await jobs(moving) if job["metadata"]["name"] != name]

        (second, *_) = await eventually(others, within=WITHIN, saying="the next round asks for another pod")
        kept, left = (job["spec"]["podRef"]["uid"] for job in (first, second))
        assert kept != left
        another = second["metadata"]["name"]
        assert (await plugin_of_kubectl.dra(target.admin, "approve", another))[0] == 0

        async def ended() -> dict[str, Json]:
            found = {job["metadata"]["name"]: job for job in await jobs(moving)}
            phases = {key: job.get("status", {}).get("phase") for key, job in found.items()}
            assert (phases[name], phases[another]) == ("Aborted", "Succeeded"), phases
            return found

        by_name = await eventually(ended, within=WITHIN, saying="one is rejected, and the other has moved its pod")
        now = uids(await pods_of(moving, "web"))
        assert kept in now
        assert left not in now
        moved = by_name[another]["status"]["podRef"]["name"]
        _, why = await plugin_of_kubectl.dra(target.admin, "explain", f"pod/{moved}", "-n", "default")
        assert "why       RemoveDuplicates of profile p: " in why
