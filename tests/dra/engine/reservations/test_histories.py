"""The accounting say what a slow and obviously right model says, whatever happens, and in whatever order it is told.

10,000 histories: HYPOTHESIS_PROFILE=deep pytest --hypothesis-show-statistics (which counts what happened in them).
"""

import os
from collections import Counter
from itertools import count

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dra.api.reservations.well_known import LABEL_PRE_ALLOCATION_REQUIRED, TRUE
from dra.engine.reservations import filters as filtering
from dra.engine.reservations import node_usage, owner_matching
from dra.engine.reservations.accounting import AssumedPod, ReservationAccounting
from dra.engine.reservations.preemption import select_victims
from dra.engine.reservations.reservation_placement import ReservationPlacement
from dra.model.meta import Uid
from dra.model.quantities import NANOS_PER_UNIT, PODS
from tests.dra.engine.reservations.examples import ALIGNED, DEFAULT, REQUIRED, RESTRICTED, of, pod, reservation_info
from tests.dra.engine.reservations.naive_accounting import NaiveAccounting

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
HISTORIES = 10_000 if DEEP else 40
NODES, APPS = ("n1", "n2", "n3"), ("a", "b")
PROBES = [
    *(pod(f"probe-{app}-{cpu}", cpu, app=app) for app in APPS for cpu in (0, 1, 2, 5)),
    pod("probe-memory", 1, memory=3, app="a"),
    pod("probe-required", 2, app="a", affinity=REQUIRED),
    pod("probe-ignoring", 3, app="b", ignores_reservations=True),
]
UNPLACED = [
    reservation_info("large", 6, memory=2),
    reservation_info("restricted", 1, policy=RESTRICTED),
    reservation_info("over", 4, policy=RESTRICTED, allows_pre_allocation=True),
]
KINDS = {
    "a reservation is placed",
    "a reservation finds no room",
    "a reservation expires",
    "a reservation expires while a bind is in doubt",
    "an owner is bound inside",
    "an owner is bound beside",
    "a non-owner is bound",
    "a pod is refused",
    "a bind fails",
    "a bind is not answered",
    "a bind that was not answered has happened",
    "a bind that was not answered has not happened",
    "a preemption frees a place",
    "a preemption frees a place for an owner",
    "a preemption would be in vain",
    "a pod in a reservation ends",
    "a pod beside them ends",
    "a node is new, or has changed",
    "a node goes",
    "a pod comes without asking",
    "a restart",
    "a restart while a bind is in doubt",
}
"""What has to happen, for this to have shown anything."""


class History:
    """The accounting and the model, told the same."""

    def __init__(self):
        self.accounting, self.slow = ReservationAccounting(), NaiveAccounting()
        self.numbers = count()
        self.strict = set(NODES)
        """Nodes on which nothing has happened that a scheduler cannot help: shrinking, bypassing, ignoring."""
        self.doubts = {}
        """Pods whose binding was not answered → whether it has happened."""
        self.used = {}
        """Reservations for once → the pods that were bound into them."""
        self.seen = Counter()

    def node(self, name, cpu, memory, pods):
        capacity = of(cpu, memory=memory, pods=pods)
        before = self.slow.nodes.get(name)
        if before is None or any(capacity[r] < before.get(r, 0) for r in before):
            self.strict.discard(name)
        self.accounting.observe_node(name, capacity, labels={})
        self.slow.nodes[name] = capacity
        self.seen["a node is new, or has changed"] += 1

    def node_gone(self, name):
        self.seen["a node goes"] += name in self.slow.nodes
        self.accounting.forget_node(name)
        self.slow.nodes.pop(name, None)
        self.strict.discard(name)

    def reserve(self, node, app, cpu, memory, policy, once, inner):  # noqa: PLR0917 - a step's own fields
        new = reservation_info(
            f"r{next(self.numbers)}",
            cpu,
            memory=memory,
            app=app,
            policy=policy,
            allocate_once=once,
            reserved=of(inner) if inner else {},
        )
        found = self.accounting.assume_reservation(new, node)
        clash = any(
            (self.slow.reservations[uid].policy is DEFAULT) != (policy is DEFAULT)
            and not (self.slow.reservations[uid].allocate_once and self.slow.new_owner_count(uid))
            for uid in self.slow.on(node)
        )
        enough = node in self.slow.nodes and all(
            amount <= self.slow.free(node, r) for r, amount in new.allocatable.items() if amount
        )
        assert isinstance(found, ReservationPlacement) is (enough and not clash), found
        if isinstance(found, ReservationPlacement):
            self.slow.reservations[new.uid] = replace(new, node=node)
        self.seen[
            "a reservation is placed" if isinstance(found, ReservationPlacement) else "a reservation finds no room"
        ] += 1

    def expire(self, index, deleted):
        if not self.slow.reservations:
            return
        uid = sorted(self.slow.reservations)[index % len(self.slow.reservations)]
        gone = self.slow.reservations.pop(uid)
        for key, (p, node, inside) in self.slow.pods.items():
            if inside == uid:
                self.slow.pods[key] = (p, node, None)
        if deleted:
            self.accounting.forget_reservation(uid)
        else:
            self.accounting.observe_reservation(replace(gone, available=False))
        self.seen["a reservation expires"] += 1
        self.seen["a reservation expires while a bind is in doubt"] += bool(self.doubts)

    def admit(self, node, app, cpu, memory, required, ignores, outcome):  # noqa: PLR0917 - a step's own fields
        """A pod is to be bound; the bind succeeds, fails, or is not answered: then it has happened, or it has not."""
        name = f"p{next(self.numbers)}"
        new = pod(
            name, cpu, memory=memory, app=app, affinity=REQUIRED if required else None, ignores_reservations=ignores
        )
        expected = self.slow.filter(new)
        assert set(self.accounting.filter_nodes(new).feasible) == expected
        found = self.accounting.assume_pod(new, node)
        assert isinstance(found, AssumedPod) is (node in expected), found
        if not isinstance(found, AssumedPod):
            self.seen["a pod is refused"] += 1
            return
        inside = self.slow.fitting_reservations(new, node)
        assert found.reservation in inside if inside else found.reservation is None
        self.slow.pods[new.uid] = (new, node, found.reservation)
        self._name(new.uid)
        if outcome == "fails":
            self._take_back(new.uid)
            self.seen["a bind fails"] += 1
            return
        if ignores:
            self.strict.discard(node)
        if outcome == "answered":
            self._is_bound(new.uid)
        else:
            self.doubts[new.uid] = outcome == "lost, has happened"
            self.seen["a bind is not answered"] += 1

    def _name(self, uid):
        """The status of the reservation that a pod is in names it, before it is bound."""
        _, _, inside = self.slow.pods[uid]
        self._list(inside, lambda listed: listed | {uid})

    def _list(self, reservation, change):
        info = self.slow.reservations.get(reservation)
        if info is not None:
            self.slow.reservations[reservation] = now = replace(info, current_owners=change(info.current_owners))
            self.accounting.observe_reservation(now)

    def _take_back(self, uid):
        _, _, inside = self.slow.pods.pop(uid)
        self._list(inside, lambda listed: listed - {uid})
        self.accounting.forget_assumed_pod(uid)

    def _is_bound(self, uid):
        new, node, inside = self.slow.pods[uid]
        owned = any(
            owner_matching.matches_any_owner(r.owners, new) for r in self.slow.reservations.values() if r.node == node
        )
        where = "an owner is bound " + ("inside" if inside else "beside") if owned else "a non-owner is bound"
        self.seen[where] += 1
        if inside and self.slow.reservations[inside].allocate_once:
            self.used.setdefault(inside, set()).add(uid)
            assert len(self.used[inside]) == 1, "for once, and used by several"
        if node in self.slow.nodes:
            self.accounting.observe_pod(replace(new, allocated_reservation=inside or Uid("")), node=node)

    def find_out(self, index):
        """A read tells what has become of a bind that was not answered."""
        if not self.doubts:
            return
        uid = sorted(self.doubts)[index % len(self.doubts)]
        happened = self.doubts.pop(uid)
        if happened:
            self._is_bound(uid)
        else:
            self._take_back(uid)
        self.seen[f"a bind that was not answered has {'' if happened else 'not '}happened"] += 1

    def bypass(self, node, cpu):
        new = pod(f"p{next(self.numbers)}", cpu)
        self.accounting.observe_pod(new, node=node)
        self.slow.pods[new.uid] = (new, node, None)
        self.strict.discard(node)
        self.seen["a pod comes without asking"] += 1

    def end(self, index):
        there = sorted(self.slow.pods.keys() - self.doubts)
        if not there:
            return
        uid = there[index % len(there)]
        self.accounting.forget_pod(uid)
        _, _, inside = self.slow.pods.pop(uid)
        if inside and not self.slow.reservations[inside].allocate_once:  # else the status says for ever who had it
            self._list(inside, lambda listed: listed - {uid})
        self.seen["a pod in a reservation ends" if inside else "a pod beside them ends"] += 1

    def preempt(self, node, app, cpu, within):
        """Whom a pod makes leave are those who must, and then it has the place; or nobody leaves."""
        shared = [uid for uid in self.slow.on(node) if self.slow.allocated(uid, "cpu")]
        if within and shared:  # more than what remains of a reservation
            app = self.slow.reservations[shared[0]].owners[0].label_selector.match_labels["app"]
            cpu = self.slow.remaining(shared[0], "cpu") // NANOS_PER_UNIT + 1
        wanting = pod(f"p{next(self.numbers)}", cpu, app=app, priority=1)
        if node not in self.slow.nodes:
            return
        there = [each for each in self.accounting.pods_on_node(node) if each.pod.uid not in self.doubts]
        usage = self.accounting.node(node)
        chosen = select_victims(usage, there, priority=1, fits=lambda each: filtering.filter_node(each, wanting).fits)
        before = dict(self.slow.pods)
        if chosen is None:
            self._in_vain(wanting, node, there)
            return
        found = [before[uid][0] for uid in chosen.uids]
        for each in found:
            self.slow.pods.pop(each.uid)
        assert self.slow.fits(wanting, node), "they would die in vain"
        for each in found:
            self.slow.pods[each.uid] = before[each.uid]
            assert not self.slow.fits(wanting, node), "one of them need not die"
            del self.slow.pods[each.uid]
        for each in found:
            self.accounting.forget_pod(each.uid)
            _, _, inside = before[each.uid]
            if inside and not self.slow.reservations[inside].allocate_once:
                self._list(inside, lambda listed, uid=each.uid: listed - {uid})
        admitted = self.accounting.assume_pod(wanting, node)
        assert isinstance(admitted, AssumedPod), "they died in vain"
        self.slow.pods[wanting.uid] = (wanting, node, admitted.reservation)
        self._name(wanting.uid)
        self._is_bound(wanting.uid)
        self.seen["a preemption frees a place" + (" for an owner" if admitted.reservation else "")] += 1

    def _in_vain(self, wanting, node, there):
        before = dict(self.slow.pods)
        for each in there:
            if each.pod.priority < wanting.priority:
                self.slow.pods.pop(each.pod.uid)
        gone = self.slow.fits(wanting, node)
        self.slow.pods = before
        assert self.slow.fits(wanting, node) or not gone
        self.seen["a preemption would be in vain"] += not gone

    def restart(self, order):
        """Fill a new accounting from what the API has, in any order; then what the process before may have begun.

        Of a bind in doubt that has not happened, into no reservation, nobody knows any more: and it never will happen.
        """
        self.seen["a restart while a bind is in doubt" if self.doubts else "a restart"] += 1
        begun = {uid for uid, happened in self.doubts.items() if not happened}
        for uid in [uid for uid in begun if self.slow.pods[uid][2] is None]:
            begun.remove(uid)
            del self.doubts[uid], self.slow.pods[uid]
        as_texts = [
            *(("node", name) for name in self.slow.nodes),
            *(("reservation", uid) for uid in self.slow.reservations),
            *(("pod", uid) for uid in self.slow.pods if uid not in begun),
        ]
        order.shuffle(as_texts)
        self.accounting = ReservationAccounting()
        for kind, name in as_texts:
            if kind == "node":
                capacity = self.slow.nodes[name]
                self.accounting.observe_node(name, capacity, labels={})
            elif kind == "reservation":
                self.accounting.observe_reservation(self.slow.reservations[name])
            else:
                p, node, inside = self.slow.pods[name]
                self.accounting.observe_pod(replace(p, allocated_reservation=inside or Uid("")), node=node)
        for uid in begun:
            p, node, inside = self.slow.pods[uid]
            self.accounting.observe_pod(replace(p, allocated_reservation=inside), node=node, assumed=True)

    def check(self):
        slow, accounting = self.slow, self.accounting
        for name in slow.nodes:
            usage = accounting.node(name)
            for resource in ("cpu", "memory", PODS):
                assert usage.requested.get(resource, 0) == slow.node_requested(name, resource), (name, resource)
                if name in self.strict:
                    assert slow.used(name, resource) <= slow.nodes[name][resource], "more than a node has"
                    assert slow.free(name, resource) >= 0, "promised twice"
        for uid, info in slow.reservations.items():
            label = info.owners[0].label_selector.match_labels["app"]
            assert all(p.labels["app"] == label for p in accounting.owner_pods(uid)), "a stranger inside"
            assert {p.uid for p in accounting.owner_pods(uid)} == {p.uid for p, _, i in slow.pods.values() if i == uid}
            if info.node not in slow.nodes:
                continue
            for resource in ("cpu", "memory"):
                left = accounting.node(info.node).reservations[uid].remaining(resource)
                assert left == slow.remaining(uid, resource), (uid, resource)
            usable = not (info.allocate_once and (slow.new_owner_count(uid) or info.current_owners))
            if info.node in self.strict and usable:
                rest = accounting.node(info.node).reservations[uid].remaining("cpu")
                due = pod("due", app=label, amounts={"cpu": rest})
                assert accounting.filter_node(due, info.node).fits, "an owner was refused what is held for it"
        for probe in PROBES:
            assert set(accounting.filter_nodes(probe).feasible) == slow.filter(probe), probe.key

    def check_all_at_once(self):
        """What is told of all nodes at once is what each of them says."""
        accounting, slow = self.accounting, self.slow
        for probe in PROBES:
            each = {name: texts(accounting.filter_node(probe, name).rejections) for name in slow.nodes}
            assert as_texts(accounting.filter_nodes(probe)) == each, probe.key
        for new in UNPLACED:
            for only, required in (("", False), ("n1", False), ("", True)):
                labels = {LABEL_PRE_ALLOCATION_REQUIRED: TRUE} if required else {}
                info = replace(new, required_node=only, labels=labels)
                each = {name: answer(accounting._find_placement(info, name)) for name in slow.nodes}
                assert as_texts(accounting.filter_nodes_for_reservation(info)) == each, (new.name, only, required)


def texts(rejections):
    return [each.text for each in rejections]


def answer(found):
    return [] if isinstance(found, ReservationPlacement) else texts(found)


def as_texts(result):
    found = {name: texts(each.rejections) for each in result.rejected for name in each.nodes}
    assert not found.keys() & set(result.feasible)
    assert sum(len(each.nodes) for each in result.rejected) == len(found)
    return found | {name: [] for name in result.feasible}


nodes, apps = st.sampled_from(["n1", *NODES]), st.sampled_from(["a", "a", *APPS])  # often the same, so that much meets
small, flag, never, inner = st.integers(0, 4), st.booleans(), st.sampled_from([False]), st.sampled_from([0, 0, 1])
policies = st.sampled_from([RESTRICTED, ALIGNED, DEFAULT])
outcomes = st.sampled_from(["answered", "answered", "answered", "fails", "lost, has happened", "lost, has not"])
STEPS = {
    ("reserve", 6): st.tuples(nodes, apps, st.integers(2, 6), st.integers(0, 3), policies, flag, inner),
    ("admit", 14): st.tuples(nodes, apps, st.integers(1, 3), st.integers(0, 1), never, never, outcomes),
    ("admit", 2): st.tuples(nodes, apps, small, st.integers(0, 2), flag, flag, outcomes),
    ("find_out", 4): st.tuples(st.integers(0, 5)),
    ("end", 6): st.tuples(st.integers(0, 20)),
    ("expire", 2): st.tuples(st.integers(0, 5), flag),
    ("preempt", 6): st.tuples(nodes, apps, st.integers(1, 6), flag),
    ("node", 1): st.tuples(nodes, st.integers(4, 12), st.integers(2, 8), st.integers(3, 9)),
    ("node_gone", 1): st.tuples(nodes),
    ("bypass", 1): st.tuples(nodes, small),
    ("restart", 2): st.tuples(st.randoms(use_true_random=False)),
}
"""What can happen, and how often it does; a strategy that stands twice in `st.one_of` counts once."""
STEP = st.sampled_from([each for each in STEPS for _ in range(each[1])]).flatmap(
    lambda step: st.tuples(st.just(step[0]), STEPS[step])
)
ANY = st.lists(STEP, min_size=15, max_size=40)


def play(steps):
    """Play a history and return what happened in it."""
    history = History()
    for name, cpu in zip(NODES, (12, 9, 6), strict=True):
        history.node(name, cpu, 8, 8)
    history.strict = set(NODES)
    history.seen.clear()
    for what, arguments in steps:
        getattr(history, what)(*arguments)
        history.check()
    history.check_all_at_once()
    return history.seen


def test_whatever_happens_the_accounting_says_what_is_right():
    seen = Counter()

    @settings(max_examples=HISTORIES)
    @given(ANY)
    def histories(steps):
        happened = play(steps)
        for kind in happened:
            event(kind)
        seen.update(kind for kind, times in happened.items() if times)

    histories()
    print(*(f"{times:6} {kind}" for kind, times in seen.most_common()), sep="\n")  # noqa: T201 - pytest -s shows it
    assert len(KINDS - seen.keys()) <= (0 if DEEP else 2)


def forgotten(accounting, pod, *, node, assumed=False):
    if not assumed:
        OBSERVE(accounting, pod, node=node)


def nameless(accounting, info):
    RESERVE(accounting, replace(info, current_owners=frozenset()))


def reusable(accounting, info):
    RESERVE(accounting, replace(info, allocate_once=False))


OBSERVE, RESERVE = ReservationAccounting.observe_pod, ReservationAccounting.observe_reservation

HISTORIES_OF_A_MISTAKE = 1_000
"""Each mistake comes to light in the first few histories, one after a hundred; a change of the code changes them."""

MISTAKES = {
    "what-is-assumed-is-forgotten": (ReservationAccounting, "_assign_pod", lambda *_, **__: None),
    "what-fails-stays": (ReservationAccounting, "forget_assumed_pod", lambda *_: None),
    "a-start-adopts-nobody": (ReservationAccounting, "observe_pod", forgotten),
    "what-the-status-names-is-not-heeded": (ReservationAccounting, "observe_reservation", nameless),
    "only-consumers-are-charged": (
        node_usage.ReservationUsage,
        "requested",
        lambda usage, resource: usage.allocated.get(resource, 0),
    ),
    "only-what-is-held-is-charged": (
        node_usage.ReservationUsage,
        "all_requested",
        property(lambda usage: dict(usage.info.allocatable)),
    ),
    "both-are-charged": (
        node_usage.ReservationUsage,
        "all_requested",
        property(lambda usage: node_usage.quantities.add(usage.info.allocatable, usage.allocated)),
    ),
    "the-end-frees-nothing": (ReservationAccounting, "forget_reservation", lambda *_: None),
    "whoever-was-in-is-forgotten-at-the-end": (
        node_usage.NodeUsage,
        "without_reservation",
        lambda node, uid: replace(
            node,
            reservations={key: each for key, each in node.reservations.items() if key != uid},
            requested=node_usage.quantities.subtract(node.requested, node.reservations[uid].all_requested),
        ),
    ),
    "everybody-is-an-owner": (owner_matching, "matches_any_owner", lambda *_: True),
    "nobody-is-an-owner": (owner_matching, "matches_any_owner", lambda *_: False),
    "for-once-is-for-ever": (ReservationAccounting, "observe_reservation", reusable),
    "what-is-kept-within-is-given": (
        node_usage.ReservationUsage,
        "unavailable_to_owner",
        lambda usage, resource, **_: usage.allocated.get(resource, 0),
    ),
    "restricted-is-as-aligned": (
        node_usage.ReservationUsage,
        "remaining",
        lambda usage, resource, **_: usage.info.allocatable.get(resource, 0),
    ),
}
"""Name → what is wrong: of which class or module, and in what way."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_would_be_found(mistake, monkeypatch):
    where, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(where, name, wrong)

    @settings(max_examples=max(HISTORIES, HISTORIES_OF_A_MISTAKE), phases=[Phase.generate])
    @given(ANY)
    def histories(steps):
        play(steps)

    with pytest.raises(AssertionError):  # any other error says that the mistake itself is out of date
        histories()
