"""Histories of the machine that once broke an invariant, played again with their moves alone: no seed has to find them.

Each is played without what it has brought about, too: then it breaks the invariant again.
"""

import pytest

from dra.engine.claims.policy import ALONGSIDE
from dra.engine.claims.view import ClaimView
from tests.dra.engine.simulation import audit, histories
from tests.dra.engine.simulation.cluster import Pace
from tests.dra.engine.simulation.kubelets import Kubelets
from tests.dra.engine.simulation.moves import (
    AllWork,
    Backup,
    ClaimIs,
    CreateClaim,
    CreatePods,
    FinishCycle,
    NodeIs,
    PodGroupIs,
    PodIs,
    PodsAre,
    ReservationIs,
    Restart,
    SandboxIs,
    Schedule,
    StockWorks,
)
from tests.dra.engine.simulation.objects import TWO_DEVICES, Device, PodShape
from tests.dra.engine.simulation.setting import Setting
from tests.dra.engine.simulation.violation import Violation

A = PodShape(claims=("a",))
B = PodShape(claims=("b",))
BY_LABEL = (Device(name="gpu-0", nodes=("n1", "n2"), by_label=True), TWO_DEVICES[1])
SHARED = (Device(name="gpu-0", nodes=("n1", "n2"), shares=2), TWO_DEVICES[1])

BOUND_ELSEWHERE_AFTER_A_RESTORED_BACKUP = histories.History(
    setting=Setting(devices=BY_LABEL),
    moves=(
        CreateClaim(name="a"),
        NodeIs(how="relabelled"),
        CreatePods(shape=A),
        Backup(how="taken"),
        NodeIs(how="relabelled"),
        AllWork(),
        Backup(how="restored"),
        AllWork(pace=Pace(pick=2)),
        SandboxIs(how="lost"),
    ),
)
"""The judge's fault: the kubelet of the first node kept the sandbox of a pod that was bound to another one."""

A_GUARD_IN_THE_PLACE_OF_A_POD_GROUP = histories.History(
    setting=Setting(devices=TWO_DEVICES, policy=ALONGSIDE, stock=True, lags=(0.1, 80.0, 80.0, 20.0, 0.0, 3.0)),
    moves=(
        PodGroupIs(how="created"),
        CreateClaim(name="a"),
        CreatePods(shape=PodShape(claims=("a",), gated=True, gang="gang")),
        CreatePods(shape=PodShape(claims=("a",), gang="gang")),
        AllWork(),
        ClaimIs(name="a", how="forced"),
        Restart(what="writer"),
        PodsAre(how="ended"),
        AllWork(),
        Restart(what="controller"),
        AllWork(pace=Pace(lag=3)),
    ),
)
"""The entry of the PodGroup goes behind a guard, and the next process does not know that it was there."""

TAKEN_OFF_BY_THE_STOCK_CONTROLLER = histories.History(
    setting=Setting(devices=SHARED, policy=ALONGSIDE, stock=True, second_scheduler=True),
    moves=(
        ReservationIs(how="created"),
        CreateClaim(name="a"),
        CreatePods(shape=A),
        Schedule(),
        FinishCycle(),
        CreatePods(shape=A),
        CreateClaim(name="b"),
        AllWork(),
        PodIs(how="killed", which=11),
        Restart(what="controller"),
        CreatePods(shape=B),
        StockWorks(),
        PodsAre(how="ended"),
        AllWork(),
    ),
)
"""The judge's fault: pod and entry are gone before our process begins, so nobody can know of the containers."""


def forget_what_is_bound_elsewhere(patch):
    def restored(kubelets):
        present = {pod.metadata.uid for pod in kubelets._server.list(audit.Pod)}
        for uid in kubelets.sandboxes.keys() - present:
            del kubelets.sandboxes[uid]

    patch.setattr(Kubelets, "restored", restored)


def overlook_guards(patch):
    patch.setattr(ClaimView, "closed_since", property(lambda view: view.history.closed_since))


def know_whatever_was_noted(patch):
    patch.setattr(audit, "NOTED", -1.0)


@pytest.mark.parametrize(
    ("history", "without"),
    [
        pytest.param(
            BOUND_ELSEWHERE_AFTER_A_RESTORED_BACKUP,
            forget_what_is_bound_elsewhere,
            id="a-restored-pod-is-bound-to-another-node",
        ),
        pytest.param(A_GUARD_IN_THE_PLACE_OF_A_POD_GROUP, overlook_guards, id="a-guard-after-a-restart"),
        pytest.param(
            TAKEN_OFF_BY_THE_STOCK_CONTROLLER, know_whatever_was_noted, id="no-entry-beside-the-stock-controller"
        ),
    ],
)
def test_a_history_that_broke_an_invariant_breaks_it_no_more(monkeypatch, history, without):
    histories.play(history)
    without(monkeypatch)
    with pytest.raises(Violation):
        histories.play(history)
