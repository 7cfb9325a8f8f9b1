import asyncio

import pytest

from dra.cli.kubectl.checklist import CheckState, is_ready
from dra.cli.kubectl.downgrade import stand_down
from dra.cli.kubectl.downgrade.adopt import AdoptOptions, judge_entries, judge_lease, run_adopt
from dra.engine.messages.remedies import SafeCommand
from dra.kube.leader_election import LeaderElector
from dra.kube.lease_rules import STAND_DOWN, Lease, LeaseSpec
from dra.model.meta import ObjectMeta

KEY = ("dra-reserve", "dra-reserve-controller")


def lease(holder="one", *, told=False):
    meta = ObjectMeta(annotations={STAND_DOWN: "for a downgrade"} if told else None)
    return Lease(metadata=meta, spec=LeaseSpec(holder_identity=holder))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        pytest.param(lease(), CheckState.OK, id="acting"),
        pytest.param(lease(""), CheckState.MISSING, id="nobody"),
        pytest.param(lease(told=True), CheckState.MISSING, id="stood-down"),
        pytest.param(None, CheckState.MISSING, id="never-installed"),
    ],
)
def test_controllers_act_if_one_has_the_lease_and_may_have_it(found, verdict):
    assert judge_lease(found, KEY).state is verdict


def test_the_controller_of_a_local_plane_acts_without_a_lease():
    assert judge_lease(None, KEY, pid=7).state is CheckState.OK
    assert judge_lease(lease(told=True), KEY, pid=7).state is CheckState.MISSING


async def test_whoever_waits_is_told_for_what(cluster, capsys):
    await run_adopt(cluster.connection(), AdoptOptions(lease=KEY, timeout=3.0, dry_run=False))
    assert "no controller holds lease dra-reserve/dra-reserve-controller; waiting up to 3 s" in capsys.readouterr().err


def test_claims_without_the_entry_of_their_workload_are_named():
    assert judge_entries([]).state is CheckState.OK
    left = judge_entries([("ml", "train")])
    assert left.remedy == SafeCommand("kubectl describe resourceclaim train -n ml")


async def test_the_note_is_taken_off_and_a_controller_waited_for(cluster):
    connection = cluster.connection()
    await stand_down.set_stand_down(connection.client, KEY, "for a downgrade")
    coming = LeaderElector(connection.client, key=KEY, identity="one", clock=cluster.clock)
    waiting = asyncio.create_task(coming.acquire())
    await asyncio.sleep(30)
    assert not waiting.done()
    steps = await run_adopt(connection, AdoptOptions(lease=KEY, timeout=60, dry_run=False))
    assert is_ready(steps), steps
    await waiting


async def test_without_a_controller_it_says_so_when_the_time_is_over(cluster):
    connection = cluster.connection()
    await stand_down.set_stand_down(connection.client, KEY, "for a downgrade")
    began = cluster.clock.now()
    steps = await run_adopt(connection, AdoptOptions(lease=KEY, timeout=20, dry_run=False))
    assert cluster.clock.now() - began >= 20
    assert [step.state for step in steps] == [CheckState.MISSING]
    assert "no controller holds lease" in steps[0].detail


async def test_a_dry_run_changes_nothing(cluster):
    connection = cluster.connection()
    await stand_down.set_stand_down(connection.client, KEY, "for a downgrade")
    before = cluster.server.store.revision
    steps = await run_adopt(connection, AdoptOptions(lease=KEY, timeout=20, dry_run=True))
    assert "stand down" in steps[0].detail
    assert cluster.server.store.revision == before


async def test_a_claim_in_use_without_its_workload_is_told(cluster):
    job = await cluster.add_job("train")
    pods = await cluster.add_pods("train", 1, claim="train")
    claim = await cluster.add_claim("train", workload=job)
    only_pod = {"resource": "pods", "name": "train-0", "uid": pods[0]["metadata"]["uid"]}
    path = f"{cluster.claim_path('train')}/status"
    await cluster.request("PATCH", path, {"status": {"reservedFor": [only_pod]}}, patch=True)
    steps = await run_adopt(cluster.connection(), AdoptOptions(lease=KEY, timeout=5, dry_run=True))
    assert "claims in use that do not list their workload: ml/train" in steps[-1].detail
    assert claim["metadata"]["name"] == "train"
