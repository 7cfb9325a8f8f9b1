import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.reservations import placeholder_handover
from dra.engine.reservations.actions import (
    DeletePlaceholder,
    NominatePlaceholder,
    RemoveSchedulingGate,
    SetReservationAllocated,
)
from dra.engine.reservations.placeholder_handover import (
    OwnerPod,
    PlaceholderRequest,
    ReservationState,
    available_to_owners,
    plan_handover,
)
from dra.engine.reservations.placeholders import Placeholder
from dra.model.meta import ObjectMeta, Uid
from dra.model.nodes import Node, NodeSpec, Taint
from dra.model.pods import PodCondition, PodStatus, SchedulingGate
from dra.model.scheduling import SchedulerPod, SchedulerPodSpec, Toleration
from tests.dra.engine.reservations.examples import of, pod, reservation_info
from tests.violations import for_each_case

NODE = "n"


def placeholder(name, cpu, *, node=NODE, **fields):
    return Placeholder(key=("default", name), uid=Uid(name), amounts=of(cpu), node=node, **fields)


def owner_pod(name, cpu, **fields):
    whole = {"nominated": NODE, "is_annotated": True, "is_labelled": True} | fields
    return OwnerPod(key=("default", name), uid=Uid(name), amounts=of(cpu), **whole)


VERBS = {
    DeletePlaceholder: "delete",
    NominatePlaceholder: "nominate",
    SetReservationAllocated: "allocate",
    RemoveSchedulingGate: "ungate",
}


def step_texts(state):
    """Return the moves in few words."""
    found = []
    for move in plan_handover(state):
        match move:
            case PlaceholderRequest(amounts=amounts, standby_for=standby_for, replaces=replaces):
                of_whom = f" standby for {standby_for[0]}" if standby_for else ""
                instead = f" instead of {'+'.join(replaces)}" if replaces else ""
                found.append(f"keep {amounts['cpu'] // 10**9}{of_whom}{instead}")
            case DeletePlaceholder() | NominatePlaceholder() | SetReservationAllocated() | RemoveSchedulingGate():
                found.append(f"{VERBS[type(move)]} {move.uid}")
    return found


@for_each_case(
    [
        pytest.param([placeholder("a", 6)], [], [], id="all-is-kept"),
        pytest.param([], [], ["keep 6"], id="what-is-not-kept-is-asked-for"),
        pytest.param([placeholder("a", 4)], [], ["keep 2"], id="so-is-what-is-missing"),
        pytest.param(
            [placeholder("a", 6, is_terminal=True)], [], ["delete a", "keep 6"], id="one-that-its-node-has-ended"
        ),
        pytest.param([placeholder("a", 6, deleting=True)], [], ["keep 6"], id="one-that-is-deleted-by-others"),
        pytest.param([placeholder("a", 6, node="m")], [], ["delete a", "keep 6"], id="one-that-is-elsewhere"),
        pytest.param(
            [placeholder("a", 6)],
            [owner_pod("p", 6, nominated="")],
            ["allocate p", "delete a"],
            id="who-takes-all-is-nominated-before-it-is-free",
        ),
        pytest.param(
            [placeholder("a", 6)], [owner_pod("p", 2)], ["keep 4 instead of a"], id="the-rest-is-asked-for-first"
        ),
        pytest.param(
            [placeholder("a", 6), placeholder("b", 4, node="", replaces=frozenset({"a"}))],
            [owner_pod("p", 2, nominated="", is_gated=True)],
            ["allocate p", "nominate b", "delete a", "ungate p"],
            id="then-all-are-nominated-then-room-is-made-then-the-gate-opens",
        ),
        pytest.param(
            [placeholder("b", 4, node="", nominated=NODE, replaces=frozenset({"a"}))],
            [owner_pod("p", 2)],
            [],
            id="then-kube-scheduler-has-its-turn",
        ),
        pytest.param(
            [placeholder("a", 2), placeholder("b", 4)],
            [owner_pod("p", 2)],
            ["delete a"],
            id="one-as-large-as-the-owner-goes-alone",
        ),
        pytest.param(
            [placeholder("a", 2), placeholder("b", 4)],
            [owner_pod("p", 5, nominated="")],
            ["keep 5 instead of a+b", "keep 1 instead of a+b"],
            id="several-are-put-together",
        ),
        pytest.param(
            [placeholder("a", 2), placeholder("b", 4), placeholder("c", 5, node="", replaces=frozenset("ab"))],
            [owner_pod("p", 5, nominated="")],
            ["keep 1 instead of a+b"],
            id="that-goes-on-after-a-restart",
        ),
        pytest.param(
            [placeholder("a", 2), placeholder("b", 4), placeholder("c", 3, node="", replaces=frozenset("b"))],
            [owner_pod("p", 1, nominated=""), owner_pod("q", 1, nominated="", is_gated=True)],
            ["allocate p", "nominate c", "delete b"],
            id="another-owner-waits-until-the-first-has-its-room",
        ),
        pytest.param(
            [placeholder("a", 2), placeholder("b", 4), placeholder("c", 3, node="", replaces=frozenset("b"))],
            [owner_pod("p", 2, nominated="")],
            ["delete c"],
            id="for-another-owner-than-before-it-is-planned-anew",
        ),
        pytest.param(
            [placeholder("a", 3)],
            [owner_pod("p", 3), owner_pod("q", 2, nominated="")],
            [],
            id="nothing-is-released-while-an-owner-whose-capacity-is-free-is-not-bound",
        ),
        pytest.param(
            [
                placeholder("c", 1, replaces=frozenset("ab")),
                placeholder("d", 5),
                placeholder("e", 3, node="", replaces=frozenset("d")),
            ],
            [owner_pod("p", 2, nominated="")],
            ["allocate p", "nominate e", "delete d"],
            id="of-what-was-put-together-before-nothing-is-missing",
        ),
        pytest.param(
            [
                placeholder("a", 2),
                placeholder("b", 4),
                placeholder("c", 5, node="", replaces=frozenset("ab")),
                placeholder("d", 1, node="", replaces=frozenset("ab")),
            ],
            [owner_pod("p", 5, nominated="")],
            ["nominate c", "nominate d", "delete a", "delete b"],
            id="before-the-owner-is-nominated",
        ),
        pytest.param(
            [placeholder("c", 5, node="", nominated=NODE), placeholder("d", 1)],
            [owner_pod("p", 5, nominated="")],
            [],
            id="and-waited-for",
        ),
        pytest.param(
            [placeholder("b", 4)],
            [owner_pod("p", 2, is_bound=True)],
            ["keep 2 standby for p"],
            id="who-runs-there-has-a-standby",
        ),
        pytest.param(
            [placeholder("b", 4)],
            [owner_pod("p", 2, is_bound=True, is_labelled=False)],
            ["allocate p"],
            id="which-must-be-able-to-see-it",
        ),
        pytest.param(
            [placeholder("b", 4), placeholder("h", 2, node="", standby_for="p")],
            [owner_pod("p", 2, is_bound=True)],
            [],
            id="which-waits-unnominated",
        ),
        pytest.param(
            [placeholder("b", 4), placeholder("h", 2, node="", standby_for="p")],
            [owner_pod("p", 2, is_bound=True, deleting=True)],
            ["nominate h"],
            id="until-its-owner-is-deleted",
        ),
        pytest.param(
            [placeholder("b", 4), placeholder("h", 2, node="", standby_for="p")], [], ["nominate h"], id="or-has-ended"
        ),
        pytest.param(
            [placeholder("a", 6, has_claims=True)],
            [],
            ["keep 6 instead of a"],
            id="with-devices-it-is-replaced-at-once",
        ),
    ],
)
def test_what_comes_next(placeholders, owner_pods, expected):
    assert (
        step_texts(
            ReservationState(
                node=NODE, allocatable=of(6), placeholders=tuple(placeholders), owner_pods=tuple(owner_pods)
            )
        )
        == expected
    )


def steps_until_rest(state, most=12):
    """Apply plans of which no binding follows; return how many placeholders were created."""
    created = 0
    for _ in range(most):
        planned = plan_handover(state)
        if not planned:
            break
        for step in planned:
            if isinstance(step, PlaceholderRequest):
                created += 1
                made = Placeholder(
                    key=("default", f"new{created}"),
                    uid=Uid(f"new{created}"),
                    amounts=step.amounts,
                    node="",
                    replaces=frozenset(step.replaces),
                    standby_for=step.standby_for[0] if step.standby_for else Uid(""),
                )
                state = msgspec.structs.replace(state, placeholders=(*state.placeholders, made))
            elif isinstance(step, DeletePlaceholder):
                left = tuple(each for each in state.placeholders if each.uid != step.uid)
                state = msgspec.structs.replace(state, placeholders=left)
    return created


@pytest.mark.parametrize(
    ("held", "placeholders", "owner_pods"),
    [
        pytest.param(
            of(8),
            [placeholder("b", 6), placeholder("c", 4, node="", nominated=NODE, replaces=frozenset("ab"))],
            [owner_pod("g", 4, nominated="")],
            id="one-of-two-merged-placeholders-is-gone-and-a-part-is-missing",
        ),
        pytest.param(
            {"cpu": 4 * 10**9, "memory": 12 * 10**9},
            [
                Placeholder(
                    key=("default", "a"), uid=Uid("a"), amounts={"cpu": 4 * 10**9, "memory": 12 * 10**9}, node=NODE
                ),
                Placeholder(
                    key=("default", "b"),
                    uid=Uid("b"),
                    amounts={"memory": 3 * 10**9},
                    node=NODE,
                    replaces=frozenset("a"),
                ),
            ],
            [OwnerPod(key=("default", "g"), uid=Uid("g"), amounts={"memory": 10 * 10**9})],
            id="a-replacement-is-bound-on-spare-capacity-and-another-owner-has-come",
        ),
    ],
)
def test_placeholders_are_not_created_without_an_end(held, placeholders, owner_pods):
    state = ReservationState(
        node=NODE, allocatable=held, placeholders=tuple(placeholders), owner_pods=tuple(owner_pods)
    )
    assert steps_until_rest(state) <= 3


def test_for_once_no_standby_is_made_and_nobody_is_labelled():
    state = ReservationState(
        node=NODE,
        allocatable=of(6),
        allocate_once=True,
        placeholders=(placeholder("b", 4),),
        owner_pods=(owner_pod("p", 2, is_bound=True, is_labelled=False),),
    )
    assert step_texts(state) == []


@pytest.mark.parametrize(
    ("placeholders", "owner_pods", "cpu", "expected"),
    [
        pytest.param([placeholder("a", 6)], [], 6, True, id="all-of-it"),
        pytest.param([placeholder("a", 6)], [], 7, False, id="more-than-there-is"),
        pytest.param([placeholder("a", 6, node="")], [], 1, False, id="what-is-not-on-the-node-cannot-be-given"),
        pytest.param([placeholder("a", 6)], [owner_pod("p", 4)], 3, False, id="what-somebody-else-is-to-get"),
        pytest.param([placeholder("a", 6)], [owner_pod("p", 4)], 2, True, id="what-is-left"),
    ],
)
def test_who_may_have_its_room_now(placeholders, owner_pods, cpu, expected):
    state = ReservationState(
        node=NODE, allocatable=of(6), placeholders=tuple(placeholders), owner_pods=tuple(owner_pods)
    )
    node = Node(metadata=ObjectMeta(name=NODE))
    assert (
        placeholder_handover.can_admit(state, reservation_info("r", 6), pod("q", cpu, app="a"), node=node) is expected
    )
    assert not placeholder_handover.can_admit(state, reservation_info("r", 6), pod("q", cpu, app="b"), node=node)


def test_for_once_the_first_one_is_the_only_one():
    state = ReservationState(
        node=NODE,
        allocatable=of(6),
        allocate_once=True,
        placeholders=(placeholder("a", 4),),
        owner_pods=(owner_pod("p", 2),),
    )
    node = Node(metadata=ObjectMeta(name=NODE))
    assert not placeholder_handover.can_admit(state, reservation_info("r", 6), pod("q", 1, app="a"), node=node)


def waiting(*gates, refused=False, **spec):
    condition = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    return SchedulerPod(
        metadata=ObjectMeta(name="p", namespace="default", uid=Uid("p")),
        spec=SchedulerPodSpec(scheduling_gates=[SchedulingGate(name=gate) for gate in gates] or None, **spec),
        status=PodStatus(conditions=[condition] if refused else None),
    )


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(waiting(), False, id="kube-scheduler-has-not-looked-at-it-yet"),
        pytest.param(waiting(refused=True), True, id="it-found-no-room"),
        pytest.param(waiting("reserve.dra/reservation"), True, id="our-gate"),
        pytest.param(waiting("reserve.dra/reservation", "example.com/quota"), False, id="others-have-gates-too"),
        pytest.param(waiting(refused=True, node_name="m"), False, id="bound"),
    ],
)
def test_who_applies(pod, expected):
    assert placeholder_handover.waits_for_capacity(pod) is expected


@pytest.mark.parametrize(
    ("gates", "patch"),
    [
        pytest.param(["reserve.dra/reservation"], {"spec": {"schedulingGates": None}}, id="the-only-one"),
        pytest.param(
            ["example.com/quota", "reserve.dra/reservation"],
            {"spec": {"schedulingGates": [{"name": "example.com/quota"}]}},
            id="others-stay",
        ),
        pytest.param(["example.com/quota"], {}, id="it-is-gone"),
        pytest.param([], {}, id="all-are-gone"),
    ],
)
def test_our_scheduling_gate_is_removed_and_no_other(gates, patch):
    assert placeholder_handover.gate_removal_patch(waiting(*gates)) == patch


@for_each_case(
    [
        pytest.param({}, {}, True, id="nothing-is-said"),
        pytest.param({"node_selector": {"zone": "b"}}, {}, False, id="selector"),
        pytest.param({"node_selector": {"zone": "a"}}, {}, True, id="selector-that-matches"),
        pytest.param({}, {"taints": [Taint(key="t", effect="NoSchedule")]}, False, id="taint"),
        pytest.param({}, {"taints": [Taint(key="t", effect="PreferNoSchedule")]}, True, id="taint-that-advises"),
        pytest.param(
            {"tolerations": [Toleration(operator="Exists")]},
            {"taints": [Taint(key="t", effect="NoSchedule")], "unschedulable": True},
            True,
            id="tolerated",
        ),
        pytest.param({}, {"unschedulable": True}, False, id="cordoned"),
    ]
)
def test_who_could_run_on_the_node(pod, node, expected):
    target = Node(metadata=ObjectMeta(name=NODE, labels={"zone": "a"}), spec=NodeSpec(**node))
    assert placeholder_handover.matches_node(waiting(**pod), target) is expected


class Cluster:
    """One node, and what kube-scheduler does with it: the highest priority first, then who came first.

    It looks at pods when they come, and at all when one of the node is deleted. A pod of ours that does not fit keeps
    its nomination, one of others loses it. Nominations count against pods of no higher priority.
    """

    HELD, SPARE = 12, 4

    def __init__(self, *, strangers):
        self.numbers = itertools.count()
        self.placeholders = [placeholder("first", self.HELD)]
        self.owner_pods = []
        self.strangers = [f"s{n}" for n in range(strangers)]
        self.inside = []
        self.events()

    @property
    def free(self):
        taken = sum(cpus(each) for each in self.placeholders if each.node)
        return self.HELD + self.SPARE - taken - sum(cpus(g) for g in self.owner_pods if g.is_bound) - len(self.inside)

    def standing(self):
        return ReservationState(
            node=NODE,
            allocatable=of(self.HELD),
            placeholders=tuple(self.placeholders),
            owner_pods=tuple(self.owner_pods),
        )

    def events(self):
        """Look at all that wait."""
        for index, each in enumerate(self.placeholders):
            is_running = any(owner.uid == each.standby_for and owner.is_bound for owner in self.owner_pods)
            rivals = sum(cpus(k) for k in self.placeholders if k is not each and not k.node and k.nominated)
            if not each.node and not is_running and self.free - rivals >= cpus(each):
                self.placeholders[index] = msgspec.structs.replace(each, node=NODE, unschedulable_message="")
        ours = sum(cpus(k) for k in self.placeholders if not k.node and k.nominated)
        for stranger in list(self.strangers):
            theirs = sum(cpus(g) for g in self.owner_pods if not g.is_bound and g.nominated)
            if self.free - ours - theirs >= 1:
                self.strangers.remove(stranger)
                self.inside.append(stranger)
        for index, each in enumerate(self.owner_pods):
            if each.is_bound or each.is_gated:
                continue
            rivals = sum(cpus(g) for g in self.owner_pods if g is not each and not g.is_bound and g.nominated)
            fits = self.free - ours - rivals >= cpus(each)
            changed = {"is_bound": True} if fits else {"nominated": ""}
            self.owner_pods[index] = msgspec.structs.replace(each, **changed)

    def do(self, move):
        match move:
            case PlaceholderRequest():
                name = f"k{next(self.numbers)}"
                standby_for = move.standby_for[0] if move.standby_for else Uid("")
                cpu = move.amounts["cpu"] // 10**9
                replaces = frozenset(move.replaces)
                self.placeholders.append(placeholder(name, cpu, node="", standby_for=standby_for, replaces=replaces))
            case DeletePlaceholder():
                self.placeholders = [each for each in self.placeholders if each.uid != move.uid]
                self.events()
            case NominatePlaceholder():
                self.placeholders = [changed(each, move, nominated=move.node) for each in self.placeholders]
            case SetReservationAllocated():
                changes = {"is_annotated": True, "is_labelled": True} | ({"nominated": NODE} if move.node else {})
                self.owner_pods = [changed(each, move, **changes) for each in self.owner_pods]
            case RemoveSchedulingGate():
                self.owner_pods = [changed(each, move, is_gated=False) for each in self.owner_pods]
                self.events()

    def admit(self, cpu, *, gated):
        free = available_to_owners(self.standing()).get("cpu", 0) // 10**9
        if cpu <= free:
            name = f"g{next(self.numbers)}"
            self.owner_pods.append(
                owner_pod(name, cpu, nominated="", is_annotated=False, is_labelled=False, is_gated=gated)
            )

    def end(self, number):
        bound = [each for each in self.owner_pods if each.is_bound]
        if bound:
            self.owner_pods.remove(bound[number % len(bound)])
            self.events()

    def settle(self):
        for _ in range(40):
            steps = plan_handover(self.standing())
            for step in steps:
                self.do(step)
            if not steps:
                return
        raise AssertionError("it never comes to rest")


def cpus(each):
    return each.amounts["cpu"] // 10**9


def changed(each, move, **fields):
    return msgspec.structs.replace(each, **fields) if each.uid == move.uid else each


HAPPENINGS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.integers(1, 12), st.booleans()),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("interrupted"), st.integers(1, 3)),
    ),
    max_size=25,
)


@given(happenings=HAPPENINGS)
def test_what_is_reserved_is_never_anybody_elses_and_all_of_it_is_kept_again(happenings):
    cluster = Cluster(strangers=30)
    for each in happenings:
        match each:
            case ("admit", cpu, gated):
                cluster.admit(cpu, gated=gated)
            case ("end", number):
                cluster.settle()  # the standby placeholder is cluster: see the scenario for an owner that ends before
                cluster.end(number)
                cluster.settle()
            case ("interrupted", steps):  # a restart after some of the moves
                for step in plan_handover(cluster.standing())[:steps]:
                    cluster.do(step)
        assert len(cluster.inside) <= cluster.SPARE
        assert cluster.free >= 0
    cluster.settle()
    cluster.events()
    cluster.settle()
    assert all(each.is_bound for each in cluster.owner_pods)
    assert len(cluster.inside) == cluster.SPARE
    kept = sum(cpus(each) for each in cluster.placeholders if each.node)
    assert kept + sum(map(cpus, cluster.owner_pods)) == cluster.HELD
