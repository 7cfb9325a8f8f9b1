"""Tables of upstream's rules, and the same rules written down once more, without any thought of speed or beauty."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.claims.actions import EvictPod
from dra.engine.claims.codes import Code
from dra.engine.claims.eviction import CLOCK_RECHECK, CONDITION, EVICTION_BATCH, decide, is_over, lacks_condition
from dra.engine.claims.eviction_index import NOTHING_POSTPONED, PostponedEvictions
from dra.engine.claims.policy import ALONGSIDE, REPLACE
from dra.engine.devices.taints import TaintedResult, TaintSource
from dra.engine.instants import NEVER
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.references import ConsumerReference
from dra.model.taints import DeviceTaint
from tests.dra.engine.examples import (
    NOON,
    claim,
    finished,
    gated,
    many,
    of_type,
    pod,
    started,
    starting,
    uid,
    view,
    waiting,
)
from tests.violations import combinations, for_each_case, named

ADDED = 1_800_000_000.0
"""When taints were put on, by the time of day."""

LATER = ADDED + 5.0
"""Now, by the time of day; a clock of another kind shows `NOON`."""

EVER = {"operator": "Exists", "effect": "NoExecute"}


def taint(*, key="sick", value="ecc", at=ADDED):
    return DeviceTaint(key=key, value=value, effect="NoExecute", time_added=datetime.fromtimestamp(at, tz=UTC))


def tainted(*tolerations, device="gpu-0", by=TaintSource.SLICE, name="s", node=None, admin=None, **of):
    result = DeviceRequestAllocationResult(
        driver="gpu.example.com", pool="pool", device=device, tolerations=list(tolerations), admin_access=admin
    )
    return TaintedResult(result=result, taint=taint(**of), source=by, name=name, node=node)


def tolerating(seconds=None, **toleration):
    more = {} if seconds is None else {"tolerationSeconds": seconds}
    return {**EVER, **toleration, **more}


def decided(*consumers, taints, policy=REPLACE, wall=LATER, postponed=NOTHING_POSTPONED, **form):
    seen = view(claim(**form), *consumers, taints=tuple(taints))
    return decide(seen, policy=policy, now=NOON, wall=wall, postponed=postponed)


def evicted(plan):
    return [action.pod[1] for action in of_type(plan, EvictPod)]


@for_each_case(
    combinations(
        named([REPLACE, ALONGSIDE], ["replace", "alongside"]),
        [
            pytest.param([started("a"), starting("b")], [], ["a", "b"], id="started-or-starting"),
            pytest.param([started("a"), started("b")], ["a"], ["b"], id="not-who-is-listed"),
            pytest.param([gated("a"), waiting("b"), finished("c")], [], [], id="not-who-does-not-consume"),
            pytest.param([started("a", deleting=True)], [], [], id="not-who-is-going-anyhow"),
            pytest.param([], [], [], id="nobody"),
        ],
    )
)
def test_who_is_evicted(policy, consumers, listed, expected):
    entries = [c for c in consumers if c.name in listed]
    assert evicted(decided(*consumers, taints=[tainted()], list=entries, policy=policy)) == expected


@pytest.mark.parametrize(
    ("until", "expected", "wake_at"),
    [
        pytest.param(NOON + 5.0, ["b"], NOON + 5.0, id="left-alone"),
        pytest.param(NOON, ["a", "b"], NEVER, id="long-enough"),
    ],
)
def test_a_pod_whose_eviction_failed_is_left_alone_for_a_while(until, expected, wake_at):
    postponed = PostponedEvictions(until=until, pods=frozenset({uid("a"), uid("gone")}))
    plan = decided(started("a"), started("b"), taints=[tainted()], postponed=postponed)
    assert (evicted(plan), plan.wake_at) == (expected, wake_at)


@pytest.mark.parametrize(
    ("found", "over"),
    [
        pytest.param(pod("a", node="n1", phase="Running"), False, id="runs"),
        pytest.param(pod("a", node="n1", phase="Failed"), True, id="has-ended"),
        pytest.param(pod("a", node="n1", deleting=True), True, id="is-being-deleted"),
    ],
)
def test_a_pod_that_ends_anyway_is_not_evicted(found, over):
    assert is_over(found) is over


@pytest.mark.parametrize(
    ("conditions", "lacks"),
    [
        pytest.param(None, True, id="none"),
        pytest.param([CONDITION], False, id="this-one"),
        pytest.param([msgspec.structs.replace(CONDITION, status="False")], True, id="not-any-longer"),
        pytest.param([msgspec.structs.replace(CONDITION, reason="Preempted")], True, id="by-another-cause"),
    ],
)
def test_the_condition_is_set_once(conditions, lacks):
    found = pod("a", node="n1")
    found = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, conditions=conditions))
    assert lacks_condition(found) is lacks


def test_an_entry_of_another_kind_with_the_uid_of_the_pod_lists_it():
    """Upstream compares uids only."""
    tombstone = ConsumerReference(api_group="reserve.dra", resource="finishedpods", name="a", uid=uid("a"))
    assert evicted(decided(started("a"), taints=[tainted()], list=[tombstone])) == []


def test_the_pods_of_a_listed_gang_are_seen_by_upstream():
    gang = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid=uid("g"))
    members = [started("a", pod_group="g"), started("b", pod_group="h"), started("c")]
    assert evicted(decided(*members, taints=[tainted()], list=[gang])) == ["b", "c"]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({"resource.kubernetes.io/extended-resource-claim": "true"}, ["a"], id="for-extended-resources"),
        pytest.param({"resource.kubernetes.io/extended-resource-claim": "false"}, [], id="another-value"),
        pytest.param({}, [], id="another-claim"),
    ],
)
def test_upstream_does_not_find_the_pods_of_claims_for_extended_resources(annotations, expected):
    plan = decided(started("a"), taints=[tainted()], list=[started("a")], annotations=annotations)
    assert evicted(plan) == expected


def test_other_entries_hide_nobody():
    job = ConsumerReference.parse("jobs.batch/train", uid=uid("job"))
    assert evicted(decided(started("a"), taints=[tainted()], list=[job, "guard"])) == ["a"]


def test_a_slice_of_one_node_ends_no_pod_on_another():
    """A plugin's token of one node may write slices that name that node, in the pool of any other."""
    pods = [started("a", node="n1"), started("b", node="n2")]
    assert evicted(decided(*pods, taints=[tainted(node="n2")])) == ["b"]
    assert evicted(decided(*pods, taints=[tainted(node="n3")])) == []
    assert evicted(decided(*pods, taints=[tainted(node=None)])) == ["a", "b"]


def test_each_pod_has_the_deadline_of_its_node():
    pods = [started("a", node="n1"), started("b", node="n2")]
    plan = decided(*pods, taints=[tainted(node="n1"), tainted(tolerating(25), node="n2")])
    assert evicted(plan) == ["a"]
    assert plan.wake_at == NOON + 20.0


@for_each_case(
    [
        pytest.param([], 0, id="none"),
        pytest.param([EVER], NEVER, id="everything"),
        pytest.param([{"operator": "Exists"}], NEVER, id="without-effect"),
        pytest.param([{"operator": "Exists", "effect": ""}], NEVER, id="with-an-empty-effect"),
        pytest.param([{"operator": "Exists", "tolerationSeconds": 30}], 30, id="without-effect-for-a-while"),
        pytest.param([{"key": "dusty", "operator": "Exists"}], 0, id="another-key-without-effect"),
        pytest.param([tolerating(effect="NoSchedule")], 0, id="another-effect"),
        pytest.param([tolerating(key="sick")], NEVER, id="the-key"),
        pytest.param([tolerating(key="dusty")], 0, id="another-key"),
        pytest.param([tolerating(key="sick", operator="Equal", value="ecc")], NEVER, id="the-value"),
        pytest.param([tolerating(key="sick", operator="Equal", value="heat")], 0, id="another-value"),
        pytest.param([{"key": "sick", "value": "ecc", "effect": "NoExecute"}], NEVER, id="no-operator"),
        pytest.param([tolerating(key="sick", operator="", value="ecc")], NEVER, id="empty-operator"),
        pytest.param([tolerating(key="sick", operator="Matches")], 0, id="unknown-operator"),
        pytest.param([tolerating(30)], 30, id="a-while"),
        pytest.param([tolerating(30), tolerating(20), tolerating(60)], 20, id="the-shortest-while"),
        pytest.param([tolerating(30), EVER], NEVER, id="once-for-ever"),
        pytest.param([tolerating(30), tolerating(1, key="dusty")], 30, id="those-that-match-only"),
        pytest.param([tolerating(0)], 0, id="no-time"),
        pytest.param([tolerating(-60)], 0, id="less-than-no-time"),
        pytest.param([tolerating(2**63 - 1)], 2**63 - 1, id="the-longest-while"),
    ],
)
def test_how_long_a_taint_is_tolerated(tolerations, seconds):
    before = decided(started("a"), taints=[tainted(*tolerations)], wall=ADDED + min(seconds, 1e9) - 0.001)
    after = decided(started("a"), taints=[tainted(*tolerations)], wall=ADDED + seconds if seconds < 1e9 else 1e12)
    assert (evicted(before), evicted(after)) == ([], ["a"] if seconds < 1e9 else [])


@pytest.mark.parametrize(
    ("taints", "due"),
    [
        pytest.param([tainted(tolerating(60)), tainted(tolerating(30), device="gpu-1")], 30, id="of-two-devices"),
        pytest.param([tainted(tolerating(60)), tainted(tolerating(30), key="b")], 30, id="of-two-taints"),
        pytest.param([tainted(tolerating(60)), tainted(tolerating(60), at=ADDED - 40)], 20, id="by-age"),
        pytest.param([tainted(EVER), tainted(tolerating(30), key="b")], 30, id="of-those-that-are-not-borne"),
        pytest.param([tainted(tolerating(30), admin=True)], 30, id="with-admin-access"),
    ],
)
def test_the_earliest_deadline_counts(taints, due):
    assert evicted(decided(started("a"), taints=taints, wall=ADDED + due - 0.001)) == []
    assert evicted(decided(started("a"), taints=taints, wall=ADDED + due)) == ["a"]


@pytest.mark.parametrize(
    ("seconds", "wall", "wake_at"),
    [
        pytest.param(30, ADDED, NOON + 30, id="at-the-deadline"),
        pytest.param(3600, ADDED, NOON + CLOCK_RECHECK, id="soon-enough-if-the-clock-is-set"),
        pytest.param(30, ADDED - 40, NOON + CLOCK_RECHECK, id="or-was-set-back"),
        pytest.param(30, ADDED + 29.5, NOON + 0.5, id="in-a-moment"),
    ],
)
def test_when_it_looks_again(seconds, wall, wake_at):
    plan = decided(started("a"), taints=[tainted(tolerating(seconds))], wall=wall)
    assert (plan.actions, plan.wake_at) == ((), wake_at)


@pytest.mark.parametrize(
    ("consumers", "taints"),
    [
        pytest.param([started("a")], [], id="no-taint"),
        pytest.param([started("a")], [tainted(EVER)], id="tolerated-for-ever"),
        pytest.param([waiting("a")], [tainted(tolerating(30))], id="nobody-consumes"),
    ],
)
def test_it_does_not_look_again_where_only_an_event_can_change_anything(consumers, taints):
    plan = decided(*consumers, taints=taints, wall=ADDED)
    assert (plan.actions, plan.wake_at) == ((), NEVER)


def test_a_claim_of_many_pods_is_decided_again_in_between():
    plan = decided(*many(started, EVICTION_BATCH + 1), taints=[tainted()])
    assert (len(plan.actions), plan.wake_at) == (EVICTION_BATCH, NOON)
    assert decided(*many(started, EVICTION_BATCH), taints=[tainted()]).wake_at == NEVER


def test_it_may_be_switched_off():
    off = msgspec.structs.replace(REPLACE, evict=False)
    assert decided(started("a"), taints=[tainted()], policy=off).actions == ()


def test_it_tells_the_pod_why():
    rule = tainted(tolerating(3), by=TaintSource.RULE, name="r")
    (action,) = decided(started("a"), taints=[tainted(tolerating(3)), rule]).actions
    assert (action.source, action.reason.code, action.reason.done) == (TaintSource.RULE, Code.EVICTED, True)
    assert action.reason.text == (
        "pod ml/a: was evicted: device gpu.example.com/pool/gpu-0 of claim train has taint sick=ecc:NoExecute "
        "of DeviceTaintRule r, tolerated for 3 s"
    )


# The same once more:

KEYS = ["sick", "dusty"]
tolerations = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(["", *KEYS]), "operator": st.sampled_from(["Exists", "Equal", ""])},
        optional={
            "value": st.sampled_from(["ecc", "heat"]),
            "effect": st.sampled_from(["NoExecute", "NoSchedule", "NoExecute", ""]),
            "tolerationSeconds": st.integers(-2, 9),
        },
    ),
    max_size=3,
)
taints = st.lists(
    st.builds(
        lambda borne, device, key, age: tainted(*borne, device=device, key=key, at=ADDED + age),
        tolerations,
        st.sampled_from(["gpu-0", "gpu-1"]),
        st.sampled_from(KEYS),
        st.integers(-3, 3),
    ),
    max_size=4,
)
consumers = st.lists(
    st.builds(
        lambda make, name, deleting: make(name, deleting=deleting),
        st.sampled_from([gated, waiting, starting, started, finished]),
        st.sampled_from("abcdef"),
        st.sampled_from([False, False, True]),
    ),
    unique_by=lambda c: c.uid,
)


def due_by_upstream(found):
    """When the pods of a claim with these taints are to go."""
    deadlines = []
    for each in found:
        seconds = []
        for t in each.result.tolerations:
            if t.get("effect", "") not in {"", "NoExecute"}:
                continue
            if t["key"] != "" and t["key"] != each.taint.key:
                continue
            if t["operator"] != "Exists" and t.get("value", "") != each.taint.value:
                continue
            seconds.append(t.get("tolerationSeconds"))
        if None not in seconds:
            deadlines.append(each.taint.time_added.timestamp() + min([max(s, 0) for s in seconds] or [0]))
    return min(deadlines, default=None)


@given(consumers=consumers, listed=st.sets(st.sampled_from("abcdef")), taints=taints, age=st.integers(-4, 14))
def test_it_does_to_unlisted_pods_what_upstream_does_to_listed_ones(consumers, listed, taints, age):
    entries = [c for c in consumers if c.name in listed]
    plan = decided(*consumers, taints=taints, wall=ADDED + age, list=entries)
    due = due_by_upstream(taints)
    stay = due is None or due > ADDED + age
    unseen = [c for c in consumers if c.is_consuming and not c.deleting and c.name not in listed]
    assert sorted(evicted(plan)) == ([] if stay else sorted(c.name for c in unseen))
    assert not {a.uid for a in plan.actions} & {e.uid for e in entries}
    if unseen and due is not None and stay:
        assert plan.wake_at == NOON + due - ADDED - age


@given(consumers=consumers, taints=taints, age=st.integers(-4, 14))
def test_it_is_done_when_those_whom_it_evicts_are_going(consumers, taints, age):
    plan = decided(*consumers, taints=taints, wall=ADDED + age)
    going = {action.uid for action in plan.actions}
    after = [msgspec.structs.replace(c, deleting=c.deleting or c.uid in going) for c in consumers]
    assert decided(*after, taints=taints, wall=ADDED + age).actions == ()
