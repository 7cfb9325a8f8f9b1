"""Histories of one held claim: pods come and go, news come late, writes meet others', processes restart.

The truth is what the API server has; the world lags behind it. Whatever happens: the claim of an available reservation
is never without its allocation or its entry, and no two pods have it.
"""

import itertools

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from dra.engine.claims import claim_holders, patches
from dra.engine.claims.actions import DeleteClaim, LookUpNode, LookUpPod, LookUpWorkload
from dra.engine.claims.claim_cache import ClaimCache
from dra.engine.claims.decide import decide as decide_claim
from dra.engine.claims.generation import manifests
from dra.engine.claims.generation.decide import decide as decide_owner
from dra.engine.claims.policy import REPLACE
from dra.model.claims import DELETE_PROTECTION, ResourceClaim
from dra.model.meta import Uid
from tests.dra.engine.claims.generation.examples import entry, record, template
from tests.dra.engine.claims.generation.test_held_claims import held, owner_pod, rsv
from tests.dra.engine.examples import NAMESPACE, NOON, allocation, reference

KEY = (NAMESPACE, "h")
R = Uid("uid-r")
PODS = ("p0", "p1", "p2")
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["start", "make", "bind", "end", "drop", "generate"]), st.sampled_from(PODS)),
        st.tuples(st.sampled_from(["claims", "news", "news", "collect", "restart"]), st.just("")),
    ),
    max_size=40,
)


def protected(claim):
    metadata = msgspec.structs.replace(claim.metadata, finalizers=[DELETE_PROTECTION])
    return msgspec.structs.replace(claim, metadata=metadata)


class History:
    """The truth, and one process that decides on what it knows of it."""

    def __init__(self):
        self.version = itertools.count(1000)
        self.numbers = itertools.count()
        self.claims = {}
        self.pods = {}
        self.reservation = rsv()
        self.news = []
        self.write_claim(protected(held()))
        self.restart()

    def stamped(self, obj):
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(next(self.version)))
        return msgspec.structs.replace(obj, metadata=metadata)

    def write_claim(self, claim):
        claim = self.claims[claim.metadata.key] = self.stamped(claim)
        self.news.append(lambda: self.world.observe_claim(claim, now=self.now))
        return claim

    def write_pod(self, name, pod):
        pod = self.pods[name] = self.stamped(pod)
        self.news.append(lambda: self.world.observe_pod(pod, now=self.now))

    def restart(self):
        """A process that knows what is there, and nothing else."""
        self.now, self.news, self.world = NOON, [], ClaimCache()
        self.world.watch_reservations()
        self.world.owners.observe_template(template())
        if self.reservation is not None:
            self.tell_of_reservation()
        for claim in self.claims.values():
            self.world.observe_claim(claim, now=self.now)
        for pod in self.pods.values():
            self.world.observe_pod(pod, now=self.now)
        self.world.mark_synced(now=self.now)

    def tell_of_reservation(self):
        if self.reservation is None:
            self.world.forget_reservation(R)
        else:
            self.world.observe_reservation(R, self.reservation)

    def hear(self, count=1):
        for _ in range(min(count, len(self.news))):
            self.news.pop(0)()

    def live(self, name):
        pod = self.pods.get(name)
        return pod is not None and not pod.terminal

    # What others do

    def make(self, name):
        if name not in self.pods:
            pod = owner_pod(entry("a"), name=name)
            uid = Uid(f"uid-{name}-{next(self.numbers)}")
            metadata = msgspec.structs.replace(pod.metadata, uid=uid)
            self.write_pod(name, msgspec.structs.replace(pod, metadata=metadata))

    def start(self, name):
        """All at once and in time, as it mostly is."""
        self.make(name)
        self.hear(len(self.news))
        self.generate(name)
        self.generate(name)
        self.bind(name)

    def bind(self, name):
        """The scheduler lists a pod, and binds it."""
        pod = self.pods.get(name)
        if not self.live(name) or pod.spec.node_name or not pod.status.resource_claim_statuses:
            return
        claim = self.claims.get((NAMESPACE, pod.status.resource_claim_statuses[0].resource_claim_name))
        if claim is None or claim.controller is None or claim.controller.uid != pod.metadata.uid:
            return
        listed = msgspec.structs.replace(
            claim.status,
            allocation=claim.status.allocation or allocation(f"gpu-{next(self.numbers)}"),
            reserved_for=[*claim.entries, self.entry_of(pod)],
        )
        self.write_claim(protected(msgspec.structs.replace(claim, status=listed)))
        self.write_pod(name, msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="n")))

    @staticmethod
    def entry_of(pod):
        return msgspec.convert(
            {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}, type(reference("guard"))
        )

    def end(self, name):
        if self.live(name) and self.pods[name].spec.node_name:
            pod = self.pods[name]
            self.write_pod(
                name, msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Failed"))
            )

    def drop(self, name):
        if name in self.pods:
            uid = self.pods.pop(name).metadata.uid
            self.news.append(lambda: self.world.forget_pod(uid))

    def collect(self, _=""):
        """The garbage collector looks at every claim."""
        uids = {pod.metadata.uid for pod in self.pods.values()} | ({R} if self.reservation is not None else set())
        for key, claim in tuple(self.claims.items()):
            solid = [each for each in claim.metadata.owner_references or () if each.uid in uids]
            if solid == claim.metadata.owner_references:
                continue
            if solid:
                metadata = msgspec.structs.replace(claim.metadata, owner_references=solid)
                self.write_claim(msgspec.structs.replace(claim, metadata=metadata))
            elif claim.status.allocation is None:
                self.vanish(key)
            elif not claim.metadata.deleting:
                metadata = msgspec.structs.replace(claim.metadata, deletion_timestamp="2026-11-20T12:00:00Z")
                self.write_claim(msgspec.structs.replace(claim, metadata=metadata))

    def vanish(self, key):
        uid = self.claims.pop(key).metadata.uid
        self.news.append(lambda: self.world.forget_claim(key, uid))

    # What the process does

    def claims_(self):
        for key in tuple(self.world.keys()):
            view = self.world.view(key, now=self.now)
            if view is None:
                continue
            plan = decide_claim(view, policy=REPLACE, now=self.now)
            for write in plan.claim_writes:
                known = self.world.claim(key)
                if known is None or not self.swap(known, patches.apply_write(known, write)):
                    break
            for action in plan.actions:
                self.answer(key, action)

    def answer(self, key, action):
        """Do what is asked besides the writes on the claim."""
        match action:
            case DeleteClaim() if key in self.claims:
                self.vanish(key)
            case LookUpPod(uid=uid):
                if any(pod.metadata.uid == uid and self.live(name) for name, pod in self.pods.items()):
                    self.world.lookups.observe_pod_present(key, uid, now=self.now)
                else:
                    self.world.lookups.observe_pod_absent(key, uid)
            case LookUpNode(node=node):
                self.world.lookups.observe_node_read(key, node, now=self.now)
            case LookUpWorkload(reference=reference) if self.reservation is None:
                self.world.reservation_missing(reference.name, reference.uid)

    def swap(self, known, wanted):
        key = known.metadata.key
        truth = self.claims.get(key)
        if truth is None or truth.metadata.uid != known.metadata.uid:
            self.world.forget_claim(key, known.metadata.uid)
            return False
        if truth.metadata.resource_version != known.metadata.resource_version:
            self.world.observe_claim(truth, now=self.now)
            return False
        written = self.write_claim(wanted)
        self.world.observe_claim(written, now=self.now, ours=True)
        if written.metadata.deleting and not written.metadata.finalizers:
            self.vanish(key)
        return True

    def generate(self, name):
        uid = self.pods[name].metadata.uid if name in self.pods else Uid("")
        view = self.world.owner_view(uid)
        if view is None:
            return
        plan = decide_owner(view)
        for action in plan.hand_over:
            self.swap(action.held.claim, patches.apply_write(action.held.claim, manifests.hand_over_write(action)))
        for action in plan.create:
            made = msgspec.convert(msgspec.to_builtins(manifests.claim_manifest(action)), ResourceClaim)
            new = f"{name}-{next(self.numbers)}"
            metadata = msgspec.structs.replace(made.metadata, name=new, namespace=NAMESPACE, uid=Uid(f"uid-{new}"))
            made = self.write_claim(msgspec.structs.replace(made, metadata=metadata))
            self.world.observe_claim(made, now=self.now, ours=True)
        if plan.record is not None and name in self.pods:
            pod = self.pods[name]
            named = [record(each.name, each.resource_claim_name) for each in plan.record.claims]
            status = msgspec.structs.replace(pod.status, resource_claim_statuses=named)
            self.write_pod(name, msgspec.structs.replace(pod, status=status))

    def play(self, what, name):
        match what:
            case "claims":
                self.claims_()
            case "news":
                self.hear()
            case "restart":
                self.restart()
            case _:
                getattr(self, what)(name)

    def settle(self):
        for _ in range(6):
            self.now += 3600.0
            self.hear(len(self.news))
            self.collect()
            self.hear(len(self.news))
            self.claims_()
            for name in PODS:
                self.generate(name)

    # What must hold

    def check(self):
        truth = self.claims[KEY]
        assert truth.status.allocation == allocation()
        assert claim_holders.reserved_for_entry("r", R) in truth.entries
        assert [each.uid for each in claim_holders.owner_reservations(truth)] == [R]
        bound = [pod for pod in self.pods.values() if self.live(pod.metadata.name) and pod.spec.node_name]
        mine = [
            pod for pod in bound if any(s.resource_claim_name == "h" for s in pod.status.resource_claim_statuses or ())
        ]
        assert len(mine) <= 1
        assert all(truth.controller is not None and truth.controller.uid == pod.metadata.uid for pod in mine)


@settings(max_examples=2 * settings.default.max_examples)
@given(operations=OPERATIONS)
def test_a_held_claim_is_kept_and_is_one_pods_at_a_time(operations):
    history = History()
    for what, name in operations:
        history.play(what, name)
        history.check()
    for name in PODS:
        history.drop(name)
    history.settle()
    history.check()
    truth = history.claims[KEY]
    assert (truth.controller, truth.entries) == (None, (claim_holders.reserved_for_entry("r", R),))
    history.make("p0")
    history.settle()
    assert history.pods["p0"].status.resource_claim_statuses[0].resource_claim_name == "h"


@given(operations=OPERATIONS, deleted=st.booleans(), later=OPERATIONS)
def test_when_its_reservation_is_over_it_is_free_once_nobody_uses_it(operations, deleted, later):
    history = History()
    for what, name in operations:
        history.play(what, name)
    history.reservation = None if deleted else rsv(phase="Failed")
    history.news.append(history.tell_of_reservation)
    for what, name in later:
        history.play(what, name)
        truth = history.claims.get(KEY)
        for pod in history.pods.values():
            if history.live(pod.metadata.name) and pod.spec.node_name and truth is not None and truth.controller:
                assert truth.controller.uid != pod.metadata.uid or truth.status.allocation == allocation()
    for name in PODS:
        history.drop(name)
    history.settle()
    truth = history.claims.get(KEY)
    assert truth is None or truth.status.allocation is None
