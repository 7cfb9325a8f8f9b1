"""Histories of the machine that once broke an invariant, played again with their moves alone: no seed has to find them.

Each is played without what it has brought about, too: then it breaks the invariant again.
"""

import pytest

from dra.engine.claims import claim_state
from dra.engine.claims.policy import ALONGSIDE
from dra.model.meta import Uid
from dra.model.references import ConsumerReference
from tests.dra.engine.simulation import histories, safety, scheduler
from tests.dra.engine.simulation.cluster import SchedulerPace
from tests.dra.engine.simulation.kubelets import Kubelets
from tests.dra.engine.simulation.moves import (
    Backup,
    ChangeClaim,
    ChangeJob,
    ChangeNode,
    ChangePod,
    ChangePodGroup,
    ChangePods,
    ChangeReservation,
    ChangeSandbox,
    CollectPods,
    ControllerWorks,
    CreateClaim,
    CreatePods,
    DecideClaim,
    DeliverLateRequest,
    EverybodyWorks,
    FinishCycle,
    KubeletsWork,
    PermitPod,
    ReportDevice,
    Restart,
    Schedule,
    SchedulerWorks,
    StepCycle,
    StepSync,
    StockControllerWorks,
    TimePasses,
    WaitForDeadline,
)
from tests.dra.engine.simulation.objects import TWO_DEVICES, Device, PodShape
from tests.dra.engine.simulation.requests import RequestOutcome
from tests.dra.engine.simulation.setting import Setting
from tests.dra.engine.simulation.violation import Violation
from tests.dra.engine.simulation.write_checker import ControllerWriteChecker
from tests.violations import for_each_case

A = PodShape(claims=("a",))
B = PodShape(claims=("b",))
BY_LABEL = (Device(name="gpu-0", nodes=("n1", "n2"), by_label=True), TWO_DEVICES[1])
SHARED = (Device(name="gpu-0", nodes=("n1", "n2"), shares=2), TWO_DEVICES[1])

BOUND_ELSEWHERE_AFTER_A_RESTORED_BACKUP = histories.History(
    setting=Setting(devices=BY_LABEL),
    moves=(
        CreateClaim(name="a"),
        ChangeNode(how="relabelled"),
        CreatePods(shape=A),
        Backup(how="taken"),
        ChangeNode(how="relabelled"),
        EverybodyWorks(),
        Backup(how="restored"),
        EverybodyWorks(pace=SchedulerPace(pick=2)),
        ChangeSandbox(how="lost"),
    ),
)
"""The judge's fault: the kubelet of the first node kept the sandbox of a pod that was bound to another one."""

CREATED_AGAIN_AFTER_AN_ENTRY_WITHOUT_ITS_RECORD = histories.History(
    setting=Setting(binding_seconds=30.0),
    moves=(
        ChangeJob(name="train", how="created"),
        CreateClaim(name="a", reserved_for="train", known=False),
        CreatePods(shape=A),
        EverybodyWorks(pace=SchedulerPace(), seconds=1.0),
        ControllerWorks(outcome=RequestOutcome.LOST),
        ChangePods(how="killed", but=11),
        ChangeJob(name="train", how="deleted"),
        ChangeJob(name="train", how="created"),
    ),
)
"""The entry was made, and the write that records it was not: the pods of the former Job may still run when the entry is
removed, and the next Job of that name was entered for their allocation at once."""

ENTERED_FOR_A_SUCCESSOR_WITHOUT_ITS_RECORD = histories.History(
    setting=Setting(list_size=(7, 2), binding_seconds=10.0, lags=(0.1, 0.1, 80.0, 3.0, 3.0, 0.0)),
    moves=(
        ChangeJob(name="train", how="created"),
        CreateClaim(name="a", reserved_for="train", known=False),
        CreatePods(shape=A),
        EverybodyWorks(pace=SchedulerPace(requests=2), seconds=1.0),
        ChangeJob(name="train", how="replaced"),
        Restart(what="writer"),
        FinishCycle(),
        EverybodyWorks(pace=SchedulerPace(), seconds=1.0),
        Restart(what="writer"),
        DeliverLateRequest(),
    ),
)
"""The Job was replaced, its successor was entered, and the write that records this was lost: the controller took the
entry for one that the owner had removed."""

DELETED_BEFORE_ITS_WORKLOAD_WAS_REPLACED = histories.History(
    setting=Setting(
        devices=TWO_DEVICES,
        list_size=(6, 2),
        policy=ALONGSIDE,
        binding_seconds=10.0,
        stock=True,
        second_scheduler=True,
        lags=(20.0, 3.0, 0.0, 80.0, 80.0, 3.0),
    ),
    moves=(
        ChangeJob(name="train", how="created"),
        CreateClaim(name="a", reserved_for="train"),
        ControllerWorks(outcome=RequestOutcome.REFUSED),
        CreatePods(shape=A),
        SchedulerWorks(),
        ControllerWorks(),
        ControllerWorks(outcome=RequestOutcome.LOST),
        ChangeClaim(name="a", how="deleted"),
        ChangeJob(name="train", how="replaced"),
        Restart(what="writer"),
        CreatePods(shape=PodShape(claims=("a", "b"))),
        ChangePods(how="ended"),
        StockControllerWorks(),
    ),
)
"""The uid of the new Job was recorded beside the entry of the old one, which the next decision took off."""

NODE_DELETED_BEFORE_THE_DEVICE_WAS_BOUND = histories.History(
    setting=Setting(
        devices=(Device(name="gpu-0", nodes=("n1", "n2"), conditional=True), TWO_DEVICES[1]),
        list_size=(7, 2),
        policy=ALONGSIDE,
        stock=True,
    ),
    moves=(
        ChangePodGroup(how="created"),
        CreateClaim(name="a"),
        CreatePods(shape=PodShape(claims=("a",), gang="gang")),
        CreatePods(shape=PodShape(claims=("a",), gated_by_another=True)),
        SchedulerWorks(pace=SchedulerPace(pick=2)),
        ChangeNode(how="removed", which=5),
        ChangePod(how="ungated"),
    ),
)
"""The entry of a living PodGroup was taken off because of a device that was not bound in time."""

NODES_DELETED_WHILE_A_DEVICE_IS_ATTACHED = histories.History(
    setting=Setting(
        devices=(Device(name="gpu-0", nodes=("n1", "n2"), conditional=True), TWO_DEVICES[1]),
        policy=ALONGSIDE,
        binding_seconds=30.0,
        stock=True,
        drivers=False,
    ),
    moves=(
        CreateClaim(name="a"),
        CreatePods(shape=A),
        EverybodyWorks(),
        TimePasses(seconds=300.0),
        CreatePods(shape=A),
        EverybodyWorks(),
        WaitForDeadline(),
        *[ChangeNode(how="removed")] * 2,
    ),
)
"""Seed 559964453: the claim was freed at once, and a pod that waited for its device was bound to a deleted node."""

NODES_DELETED_WITH_A_BROKEN_DEVICE = histories.History(
    setting=Setting(
        devices=(Device(name="gpu-0", nodes=("n1", "n2"), conditional=True), TWO_DEVICES[1]), policy=ALONGSIDE
    ),
    moves=(
        CreateClaim(name="a"),
        CreatePods(shape=A),
        SchedulerWorks(),
        ReportDevice(how="broken"),
        *[ChangeNode(how="removed")] * 3,
    ),
)
"""The wait for bindings ended with the time that the device had to be attached: nobody looked at the claim again."""

NODE_BACK_WHILE_THE_CLAIM_IS_FREED = histories.History(
    setting=Setting(policy=ALONGSIDE, stock=True),
    moves=(
        CreateClaim(name="a"),
        CreatePods(shape=A),
        SchedulerWorks(pace=SchedulerPace(requests=3)),
        ControllerWorks(),
        *[ChangeNode(how="removed")] * 2,
        *[ControllerWorks(seconds=6.0)] * 2,
        TimePasses(seconds=2.0),
        DecideClaim(name="a"),
        StepSync(),
        ChangeNode(how="added"),
        FinishCycle(),
        KubeletsWork(),
        *[StepSync()] * 2,
        CreateClaim(name="b"),
        CreatePods(shape=B),
        SchedulerWorks(),
    ),
)
"""The same, with the damage: the node is back, and the pod starts after the live read and before the deallocation."""

NODE_BACK_FOR_ANOTHER_CYCLE = histories.History(
    moves=(
        ChangeJob(name="train", how="created"),
        CreateClaim(name="a", reserved_for="train"),
        CreatePods(shape=A),
        *[EverybodyWorks()] * 3,
        *[ChangeNode(how="removed")] * 2,
        CollectPods(),
        ControllerWorks(),
        TimePasses(seconds=100.0),
        CreatePods(shape=A),
        *[ControllerWorks(seconds=6.0)] * 3,
        TimePasses(seconds=2.0),
        DecideClaim(name="a"),
        StepSync(),
        ChangeNode(how="added"),
        SchedulerWorks(),
        KubeletsWork(),
        *[StepSync()] * 2,
    ),
)
"""The node is back, and a listed pod is tried for the first time: its entry has to go before the live reads."""

HELD_BACK_BY_A_PLUGIN = (
    ChangeJob(name="train", how="created"),
    CreateClaim(name="a", reserved_for="train"),
    CreatePods(shape=A),
    *[EverybodyWorks()] * 3,
    ChangePods(how="ended"),
    *[ControllerWorks()] * 2,
    CreatePods(shape=A),
    ControllerWorks(),
    Schedule(permit=400.0),
    StepCycle(),
    CreatePods(shape=A),
    ControllerWorks(),
    ChangeNode(how="removed"),
)
"""A listed pod is nominated for a node, a Permit plugin makes it wait, and the node is deleted."""

BOUND_LATE = (SchedulerWorks(), *[ControllerWorks(seconds=10.0)] * 30, PermitPod(), FinishCycle(), ControllerWorks())

NODES_DELETED_WHILE_A_PLUGIN_HOLDS_A_POD_BACK = histories.History(
    setting=Setting(devices=TWO_DEVICES), moves=(*HELD_BACK_BY_A_PLUGIN, ChangeNode(how="removed"), *BOUND_LATE)
)

NODE_DELETED_WHILE_VOLUMES_ARE_BOUND = histories.History(
    setting=Setting(nominates=False),
    moves=(
        CreateClaim(name="a"),
        CreatePods(shape=PodShape(claims=("a",), has_volumes=True)),
        SchedulerWorks(pace=SchedulerPace(requests=2)),
        ControllerWorks(),
        *[ChangeNode(how="removed")] * 2,
        *[ControllerWorks(seconds=10.0)] * 10,
        FinishCycle(),
    ),
)
"""The judge's fault: a binding cycle went on to wait for volumes when its node was deleted."""

A_GUARD_IN_THE_PLACE_OF_A_POD_GROUP = histories.History(
    setting=Setting(devices=TWO_DEVICES, policy=ALONGSIDE, stock=True, lags=(0.1, 80.0, 80.0, 20.0, 0.0, 3.0)),
    moves=(
        ChangePodGroup(how="created"),
        CreateClaim(name="a"),
        CreatePods(shape=PodShape(claims=("a",), gang="gang")),
        EverybodyWorks(),
        CreatePods(shape=PodShape(claims=("a",), gated=True, gang="gang")),
        ChangeClaim(name="a", how="forced"),
        Restart(what="writer"),
        ChangePods(how="ended"),
        EverybodyWorks(),
        Restart(what="controller"),
        EverybodyWorks(pace=SchedulerPace(lag=3)),
    ),
)
"""The entry of the PodGroup goes behind a guard, and the next process does not know that it was there."""

TAKEN_OFF_BY_THE_STOCK_CONTROLLER = histories.History(
    setting=Setting(devices=SHARED, policy=ALONGSIDE, stock=True, second_scheduler=True),
    moves=(
        ChangeReservation(how="created"),
        CreateClaim(name="a"),
        CreatePods(shape=A),
        Schedule(),
        FinishCycle(),
        CreatePods(shape=A),
        CreateClaim(name="b"),
        EverybodyWorks(),
        ChangePod(how="killed", which=11),
        Restart(what="controller"),
        CreatePods(shape=B),
        StockControllerWorks(),
        ChangePods(how="ended"),
        EverybodyWorks(),
    ),
)
"""The judge's fault: pod and entry are gone before our process begins, so nobody can know of the containers."""


FORCED_WITHOUT_PODS_OF_THE_GROUP = histories.History(
    setting=Setting(devices=BY_LABEL, policy=ALONGSIDE, binding_seconds=30.0, nominates=False, stock=True),
    moves=(
        ChangePodGroup(how="created"),
        CreateClaim(name="a"),
        CreatePods(shape=PodShape(claims=("a",), gang="gang")),
        EverybodyWorks(),
        ChangeClaim(name="a", how="forced"),
        ChangePods(how="ended"),
        EverybodyWorks(),
        Restart(what="writer"),
        ChangePods(how="killed"),
        EverybodyWorks(),
        CreatePods(shape=PodShape(claims=("a",), gang="gang")),
        EverybodyWorks(pace=SchedulerPace(lag=3)),
    ),
)
"""The same, and no pod of the group tells the next process of it: the one that relies on the entry is still to come."""

HELD_UP_FOR_LONGER_THAN_PROMISED = histories.History(
    setting=Setting(
        devices=(
            Device(name="gpu-0", nodes=("n1", "n2"), units=("unit-0", "unit-1"), shares=2, conditional=True),
            Device(name="half-0", nodes=("n1", "n2"), units=("unit-0",)),
            Device(name="half-1", nodes=("n1", "n2"), units=("unit-1",)),
            TWO_DEVICES[1],
        ),
        binding_seconds=10.0,
        drivers=False,
    ),
    moves=(
        CreateClaim(name="a"),
        CreateClaim(name="b"),
        CreatePods(shape=B),
        CreatePods(shape=A),
        EverybodyWorks(),
        CreatePods(shape=PodShape(claims=("b",), gated=True, has_volumes=True), count=4),
        EverybodyWorks(pace=SchedulerPace(permit=900.0)),
        ChangeClaim(name="a", how="forced"),
        EverybodyWorks(),
        EverybodyWorks(),
        ChangeClaim(name="b", how="forced"),
        CreatePods(shape=A),
        EverybodyWorks(seconds=0.0),
        EverybodyWorks(),
    ),
)
"""The judge's fault: Permit, volumes and binding conditions hold a pod up for more than 20 minutes together."""

LISTED_BEFORE_THE_BINDING_WAS_SHOWN = histories.History(
    setting=Setting(
        devices=BY_LABEL[:1],
        list_size=(5, 1),
        binding_seconds=10.0,
        second_scheduler=True,
        lags=(3.0, 80.0, 80.0, 80.0, 20.0, 3.0),
    ),
    moves=(
        CreateClaim(name="a", reserved_for="train"),
        EverybodyWorks(),
        ChangeClaim(name="a", how="forced"),
        CreatePods(shape=PodShape(claims=("a",), node="n2"), count=3),
        TimePasses(seconds=31.0),
        TimePasses(seconds=60.0),
        SchedulerWorks(),
        EverybodyWorks(),
        ChangeNode(how="relabelled", which=1),
        TimePasses(seconds=11.0),
        EverybodyWorks(),
        TimePasses(seconds=1300.0),
        DecideClaim(name="a"),
        StepSync(),
        StepSync(),
    ),
)
"""The judge's fault: the write that lists waiting pods is late, and meanwhile their bindings are shown."""

UNLISTED_AFTER_A_LIVE_READ = histories.History(
    setting=Setting(devices=TWO_DEVICES[:1], list_size=(6, 2), lags=(3.0, 0.0, 80.0, 3.0, 0.0, 0.1)),
    moves=(
        ChangeJob(name="train", how="created"),
        CreateClaim(name="a", reserved_for="train"),
        CreatePods(shape=A),
        CreatePods(shape=PodShape(claims=("a",), gated=True)),
        CreatePods(shape=A),
        EverybodyWorks(),
        EverybodyWorks(),
        TimePasses(seconds=1300.0),
        DecideClaim(name="a"),
        StepSync(),
        ChangePods(how="killed"),
        ChangeClaim(name="a", how="deleted"),
        TimePasses(seconds=31.0),
        EverybodyWorks(),
    ),
)
"""The judge's fault: the pods watch shows a pod still whose end a live read has told."""


def forget_what_is_bound_elsewhere(patch):
    def restored(kubelets):
        present = {pod.metadata.uid for pod in kubelets._server.list(safety.Pod)}
        for uid in kubelets.sandboxes.keys() - present:
            del kubelets.sandboxes[uid]

    patch.setattr(Kubelets, "api_server_restored", restored)


def overlook_guards(patch):
    patch.setattr(claim_state, "guard_entry", lambda _: ConsumerReference(resource="guards", name="", uid=Uid("")))


def know_whatever_was_noted(patch):
    patch.setattr(safety, "NOTED_WITHIN", -1.0)


def promise_for_any_plugins(patch):
    patch.setattr(scheduler, "PLUGINS_TIMEOUT", float("inf"))


def judge_by_what_is_shown_now(patch):
    known = ControllerWriteChecker._check_reach

    def check(checker, claim, entry):
        checker._server.basis = checker._server.basis._replace(pods=checker._replica().pods.seen)
        known(checker, claim, entry)

    patch.setattr(ControllerWriteChecker, "_check_reach", check)


def wait_for_volumes_without_a_node(patch):
    patch.setattr(scheduler.SimulatedScheduler, "_end_waits_for_volumes", lambda *_: None)


def judge_by_the_watch_alone(patch):
    def shown(checker, uid):
        return next((pod for pod in checker._replica().pods.seen.values() if pod.metadata.uid == uid), None)

    patch.setattr(ControllerWriteChecker, "_pod", shown)


@pytest.mark.parametrize(
    ("history", "without"),
    [
        pytest.param(
            BOUND_ELSEWHERE_AFTER_A_RESTORED_BACKUP,
            forget_what_is_bound_elsewhere,
            id="a-restored-pod-is-bound-to-another-node",
        ),
        pytest.param(A_GUARD_IN_THE_PLACE_OF_A_POD_GROUP, overlook_guards, id="a-guard-after-a-restart"),
        pytest.param(FORCED_WITHOUT_PODS_OF_THE_GROUP, overlook_guards, id="a-guard-and-no-pods-after-a-restart"),
        pytest.param(HELD_UP_FOR_LONGER_THAN_PROMISED, promise_for_any_plugins, id="plugins-that-wait-for-too-long"),
        pytest.param(LISTED_BEFORE_THE_BINDING_WAS_SHOWN, judge_by_what_is_shown_now, id="a-late-write-of-the-list"),
        pytest.param(
            NODE_DELETED_WHILE_VOLUMES_ARE_BOUND, wait_for_volumes_without_a_node, id="volumes-without-a-node"
        ),
        pytest.param(UNLISTED_AFTER_A_LIVE_READ, judge_by_the_watch_alone, id="a-pod-that-a-live-read-shows-gone"),
        pytest.param(
            TAKEN_OFF_BY_THE_STOCK_CONTROLLER, know_whatever_was_noted, id="no-entry-beside-the-stock-controller"
        ),
    ],
)
def test_a_history_that_broke_an_invariant_breaks_it_no_more(monkeypatch, history, without):
    histories.play_history(history)
    without(monkeypatch)
    with pytest.raises(Violation):
        histories.play_history(history)


@for_each_case(
    [
        pytest.param(
            CREATED_AGAIN_AFTER_AN_ENTRY_WITHOUT_ITS_RECORD, id="created-again-after-an-entry-without-its-record"
        ),
        pytest.param(ENTERED_FOR_A_SUCCESSOR_WITHOUT_ITS_RECORD, id="entered-for-a-successor-without-its-record"),
        pytest.param(DELETED_BEFORE_ITS_WORKLOAD_WAS_REPLACED, id="deleted-before-its-workload-was-replaced"),
        pytest.param(NODE_DELETED_BEFORE_THE_DEVICE_WAS_BOUND, id="node-deleted-before-the-device-was-bound"),
        pytest.param(NODES_DELETED_WHILE_A_DEVICE_IS_ATTACHED, id="nodes-deleted-while-a-device-is-attached"),
        pytest.param(NODES_DELETED_WITH_A_BROKEN_DEVICE, id="nodes-deleted-with-a-broken-device"),
        pytest.param(NODE_BACK_WHILE_THE_CLAIM_IS_FREED, id="node-back-while-the-claim-is-freed"),
        pytest.param(NODE_BACK_FOR_ANOTHER_CYCLE, id="node-back-for-another-cycle"),
        pytest.param(NODES_DELETED_WHILE_A_PLUGIN_HOLDS_A_POD_BACK, id="nodes-deleted-while-a-plugin-holds-a-pod-back"),
    ]
)
def test_a_history_in_which_a_rule_of_the_engine_was_wrong_breaks_no_invariant(history):
    histories.play_history(history)
