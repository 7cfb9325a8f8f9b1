import pytest

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.migration.model import parse_pod_migration_job
from dra.engine.descheduling.execution import REASON_MAX, AskEvictor, CreateJob, EvictNow, executions
from dra.engine.descheduling.plugin import Refusal, Verdict
from dra.engine.descheduling.round import Decision
from dra.engine.migration.approval import needs_approval
from tests.dra.engine.descheduling.rounds import SlotSnapshot, pod

BEGAN = "2026-11-24T12:00:00Z"


def decision(of=None, *, node="n3", reason="too old", receivers=None, accepted=True, profile="p"):
    verdict = Verdict(accepted=True, node=node) if accepted else Verdict(accepted=False, refusal=Refusal.NO_PLACE)
    of = of or pod("web")
    return Decision(
        pod=of,
        node=of.spec.node_name,
        profile=profile,
        plugin="PodLifeTime",
        reason=reason,
        verdict=verdict,
        receivers=receivers,
    )


def carried_out(*decisions, evictor="MigrationController", **args):
    given = MigrationControllerArgs.model_validate(args)
    snapshot = SlotSnapshot([each.pod for each in decisions], slots={"n1": 1, "n2": 1, "n3": 1})
    return executions(decisions, snapshot=snapshot, evictors={"p": evictor}, args=given, began=BEGAN)


def manifest(*given, **args):
    (execution,) = carried_out(decision(*given), **args)
    assert isinstance(execution, CreateJob)
    return execution.manifest


def test_a_job_says_which_plugin_wants_the_pod_to_move_and_why():
    made = manifest()
    assert made["metadata"] == {
        "name": "descheduled-uid-ns-web",
        "annotations": {
            "koordinator.sh/job-created-by": "dra-reserve-descheduler",
            "koordinator.sh/evict-reason": "too old",
            "koordinator.sh/evict-trigger": "PodLifeTime",
            "reserve.dra/profile": "p",
            "reserve.dra/descheduling-round": BEGAN,
        },
    }
    assert made["spec"] == {
        "podRef": {"namespace": "ns", "name": "web", "uid": "uid-ns-web"},
        "mode": "ReservationFirst",
    }
    parse_pod_migration_job(made)


def test_a_migration_may_land_only_on_receivers():
    """Of three nodes two are hot: kube-scheduler would move the pod from one to the other."""
    (execution,) = carried_out(decision(receivers=frozenset({"n3"})))
    template = execution.manifest["spec"]["reservationOptions"]["template"]
    affinity = template["spec"]["template"]["spec"]["affinity"]
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}
    parse_pod_migration_job(execution.manifest)


@pytest.mark.parametrize(
    ("receivers", "mountable", "admitted"),
    [
        pytest.param(None, {"n2"}, ["n2"], id="where-the-volume-mounts"),
        pytest.param({"n2", "n3"}, {"n2"}, ["n2"], id="receivers-that-mount-the-volume"),
        pytest.param({"n2"}, None, ["n2"], id="no-volume-that-binds"),
    ],
)
def test_a_pod_lands_only_where_its_volumes_mount(monkeypatch, receivers, mountable, admitted):
    """The placeholder of a Reservation has no volumes, so kube-scheduler cannot know."""
    mounts = None if mountable is None else frozenset(mountable)
    monkeypatch.setattr(SlotSnapshot, "mountable_nodes", lambda *_: mounts)
    wanted = None if receivers is None else frozenset(receivers)
    (execution,) = carried_out(decision(node="n2", receivers=wanted))
    affinity = execution.manifest["spec"]["reservationOptions"]["template"]["spec"]["template"]["spec"]["affinity"]
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"][0]["values"] == admitted


def test_a_job_that_needs_approval_is_made_paused():
    assert needs_approval(parse_pod_migration_job(manifest(approval="Required")))
    assert not needs_approval(parse_pod_migration_job(manifest()))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_goes_without_a_reservation(phase):
    """A Reservation would wait for a successor until its time to live ends."""
    (execution,) = carried_out(decision(pod("web", status={"phase": phase}), node=""))
    assert isinstance(execution, EvictNow)
    assert execution.eviction.reservation == ""
    assert execution.eviction.delete_options == {"preconditions": {"uid": "uid-ns-web"}}


def test_a_pod_that_runs_and_needs_no_place_keeps_limits_and_budgets_of_jobs():
    (execution,) = carried_out(decision(node=""))
    assert execution.manifest["spec"]["mode"] == "EvictDirectly"


def test_the_default_evictor_evicts_and_makes_no_job():
    (execution,) = carried_out(decision(), evictor="DefaultEvictor")
    assert isinstance(execution, EvictNow)
    assert execution.eviction.reason == "too old"


def test_any_other_evictor_is_asked():
    (execution,) = carried_out(decision(), evictor="Mine")
    assert isinstance(execution, AskEvictor)


def test_what_stays_is_not_carried_out():
    assert carried_out(decision(accepted=False)) == ()


def test_a_reason_with_a_tenants_words_is_bounded():
    (execution,) = carried_out(decision(reason="x" * 10_000))
    assert len(execution.manifest["metadata"]["annotations"]["koordinator.sh/evict-reason"]) == REASON_MAX


def test_one_pod_has_one_job_whichever_round_makes_it():
    names = {carried_out(decision(reason=text))[0].manifest["metadata"]["name"] for text in ("a", "b")}
    assert len(names) == 1
