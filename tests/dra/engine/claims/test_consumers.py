import pytest

from dra.engine.claims.consumers import SCHEDULING_GATE, Stage, consumer_of, is_relevant_change
from dra.engine.instants import BIND_HORIZON, SLOW_BIND_HORIZON
from dra.model.pods import Volume
from dra.model.workload_reservations import PRE_LIST
from tests.dra.engine.examples import DATA, FOREIGN_GATE, NOON, gated, pod, waiting
from tests.violations import for_each_case


def seen(of, *, before=None, started=False, now=NOON):
    return consumer_of(of, before=before, started=started, now=now)


@for_each_case(
    [
        pytest.param({}, False, Stage.WAITING, id="waiting"),
        pytest.param({"gates": [SCHEDULING_GATE]}, False, Stage.GATED, id="our-gate"),
        pytest.param({"gates": [FOREIGN_GATE]}, False, Stage.GATED, id="a-foreign-gate"),
        pytest.param({"deleting": True}, False, Stage.FINISHED, id="deleted-before-it-was-bound"),
        pytest.param(
            {"gates": [SCHEDULING_GATE], "deleting": True}, False, Stage.FINISHED, id="deleted-behind-the-gate"
        ),
        pytest.param({"nominated": "n1"}, False, Stage.WAITING, id="nominated-is-not-bound"),
        pytest.param({"node": "n1"}, False, Stage.STARTING, id="bound"),
        pytest.param({"node": "n1", "deleting": True}, False, Stage.STARTING, id="bound-and-deleted-still-consumes"),
        pytest.param({"node": "n1", "phase": "Running"}, True, Stage.STARTED, id="started"),
        pytest.param({"node": "n1", "phase": "Unknown"}, True, Stage.STARTED, id="a-silent-node-is-no-end"),
        pytest.param({"node": "n1", "phase": "Succeeded"}, True, Stage.FINISHED, id="succeeded"),
        pytest.param({"node": "n1", "phase": "Failed"}, False, Stage.FINISHED, id="failed-before-it-started"),
        pytest.param({"phase": "Failed"}, False, Stage.FINISHED, id="failed-before-it-was-bound"),
    ]
)
def test_the_stages_of_a_pod(form, started, stage):
    assert seen(pod("a", **form), started=started).stage is stage


def test_ages_count_from_the_first_observation():
    first = seen(pod("a"), now=10.0)
    later = seen(pod("a", version=2), before=first, now=20.0)
    bound = seen(pod("a", version=3, node="n1"), before=later, now=30.0)
    assert [(c.first_seen, c.stage_since) for c in (first, later, bound)] == [(10.0, 10.0), (10.0, 10.0), (10.0, 30.0)]


def test_a_verdict_of_the_scheduler_counts_from_when_it_was_first_seen():
    first = seen(pod("a", unschedulable="no node"), now=10.0)
    again = seen(pod("a", version=2, unschedulable="no other node"), before=first, now=20.0)
    assert (again.unschedulable_since, again.unschedulable_text) == (10.0, "no other node")
    assert seen(pod("a", version=3), before=again, now=30.0).unschedulable_since is None


@pytest.mark.parametrize(
    "form",
    [
        pytest.param({"gates": [SCHEDULING_GATE]}, id="gated"),
        pytest.param({"node": "n1"}, id="bound"),
        pytest.param({"phase": "Failed"}, id="ended"),
    ],
)
def test_only_a_waiting_pod_can_be_unschedulable(form):
    assert seen(pod("a", unschedulable="no node", **form)).unschedulable_since is None


def test_what_else_the_rules_ask_for():
    found = seen(
        pod(
            "a",
            gates=[SCHEDULING_GATE],
            claims=("train", "data"),
            pod_group="workers",
            priority=7,
            annotations={PRE_LIST: "true"},
            nominated="n1",
            version=12,
        )
    )
    assert (found.key, found.claims, found.pod_group, found.priority) == (("ml", "a"), ("train", "data"), "workers", 7)
    assert (found.opted_in, found.nominated, found.gated_by_us_only, found.resource_version) == (True, "n1", True, "12")
    assert found.entry.is_pod
    assert (found.entry.name, found.entry.uid) == ("a", "uid-a")


@for_each_case(
    [
        pytest.param({}, "", id="none"),
        pytest.param({"pod_group": "g"}, "g", id="kube-scheduler"),
        pytest.param({"annotations": {"scheduling.k8s.io/group-name": "v"}}, "v", id="volcano"),
        pytest.param({"annotations": {"gang.scheduling.koordinator.sh/name": "k"}}, "k", id="koordinator"),
        pytest.param({"labels": {"scheduling.x-k8s.io/pod-group": "c"}}, "c", id="coscheduling"),
        pytest.param(
            {"labels": {"pod-group.scheduling.sigs.k8s.io/name": "k"}}, "k", id="koordinator-without-an-object"
        ),
        pytest.param({"pod_group": "g", "annotations": {"scheduling.k8s.io/group-name": "v"}}, "g", id="both"),
    ]
)
def test_the_gang_of_a_pod(form, gang):
    assert seen(pod("a", **form)).gang == gang


def test_a_gate_that_went_before_volcanos_is_remembered():
    last = "scheduling.volcano.sh/queue-allocation-gate"
    behind = seen(pod("a", gates=[last, SCHEDULING_GATE]))
    ungated = consumer_of(pod("a", version=2, gates=[last]), before=behind, started=False, now=NOON)
    assert [each.was_gated for each in (behind, ungated)] == [False, True]
    assert (behind.precedes_other_gates, ungated.precedes_other_gates) == (True, False)


def test_who_was_behind_our_gate_is_remembered():
    behind = seen(pod("a", gates=[SCHEDULING_GATE]))
    let_go = consumer_of(pod("a", version=2), before=behind, started=False, now=NOON)
    bound = consumer_of(pod("a", version=3, node="n1"), before=let_go, started=False, now=NOON)
    assert [each.was_gated for each in (behind, let_go, bound)] == [False, True, True]


@pytest.mark.parametrize(
    ("volumes", "horizon"),
    [
        pytest.param(None, BIND_HORIZON, id="no-volumes"),
        pytest.param([Volume()], BIND_HORIZON, id="a-config-map"),
        pytest.param([Volume(), DATA], SLOW_BIND_HORIZON, id="a-volume-claim"),
        pytest.param([Volume(ephemeral={"volumeClaimTemplate": {}})], SLOW_BIND_HORIZON, id="an-ephemeral-volume"),
    ],
)
def test_binding_takes_longer_with_volumes(volumes, horizon):
    assert seen(pod("a", volumes=volumes)).bind_horizon == horizon


@pytest.mark.parametrize(
    ("gates", "only_ours"),
    [((SCHEDULING_GATE,), True), ((SCHEDULING_GATE, FOREIGN_GATE), False), ((FOREIGN_GATE,), False), ((), False)],
)
def test_whose_gate_is_left(gates, only_ours):
    assert gated("a", gates=gates).gated_by_us_only is only_ours


def test_waiting_pods_are_ordered_by_priority_then_age_then_uid():
    pods = [waiting("d", created="2"), waiting("c", created="1"), waiting("b", created="1"), waiting("a", priority=-1)]
    urgent = waiting("e", created="9", priority=1)
    assert [c.name for c in sorted([*pods, urgent], key=lambda c: c.scheduling_order)] == ["e", "b", "c", "d", "a"]


@pytest.mark.parametrize(
    ("earlier", "was_started"),
    [
        pytest.param([False], False, id="it-never-started"),
        pytest.param([True], True, id="its-sandbox-went"),
        pytest.param([True, False], True, id="and-is-still-away"),
        pytest.param([True, False, True], True, id="for-the-second-time"),
    ],
)
def test_a_pod_whose_sandbox_went_is_told_from_one_that_never_had_any(earlier, was_started):
    known = None
    for started in [*earlier, False]:
        known = consumer_of(pod("a", node="n1"), before=known, started=started, now=0.0)
    assert (known.stage, known.was_started) == (Stage.STARTING, was_started)
    assert not consumer_of(pod("a", node="n1"), before=known, started=True, now=0.0).was_started


@for_each_case(
    [
        pytest.param({}, {}, False, id="nothing"),
        pytest.param({}, {"node": "n1"}, True, id="stage"),
        pytest.param({"claims": ("train",)}, {"claims": ("train", "data")}, True, id="claims"),
        pytest.param({"gates": [SCHEDULING_GATE, FOREIGN_GATE]}, {"gates": [SCHEDULING_GATE]}, True, id="gates"),
        pytest.param({"node": "n1"}, {"node": "n1", "deleting": True}, True, id="deletion"),
        pytest.param({}, {"unschedulable": "no node"}, True, id="unschedulable"),
        pytest.param({}, {"unschedulable": ""}, True, id="unschedulable-without-a-text"),
        pytest.param({"unschedulable": "no node"}, {"unschedulable": "no device"}, True, id="unschedulable-otherwise"),
        pytest.param({}, {"priority": 7}, True, id="priority"),
        pytest.param({}, {"nominated": "n1"}, True, id="nomination"),
        pytest.param({}, {"annotations": {PRE_LIST: "true"}}, True, id="opted-in"),
    ]
)
def test_which_changes_of_a_pod_matter_to_the_rules(before, after, expected):
    first = seen(pod("a", **before))
    assert is_relevant_change(first, seen(pod("a", version=2, **after), before=first)) is expected
