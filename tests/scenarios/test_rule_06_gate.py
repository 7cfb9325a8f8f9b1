"""Rule 6: our scheduling gate is taken off late and in one order: priority, then age.

Listed pods are let go; while the claim has no allocation one opener at a time, which passes its turn after ten seconds
unschedulable; and pods with nothing to wait for at once. A pod of several claims is let go when all are ready for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios import objects, steps
from tests.scenarios.api import Json
from tests.scenarios.claims import allocated, bound, listed, revision
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually, steadily
from tests.scenarios.features import Feature
from tests.scenarios.history import WatchHistory
from tests.scenarios.namespaces import Namespace
from tests.scenarios.objects import PodShape
from tests.scenarios.resources import PODS
from tests.scenarios.target import Capability, Mode, Target

pytestmark = pytest.mark.modes(Mode.REPLACE)

GATED = PodShape(claim="shared", gated=True)
BOTH = PodShape(
    gated=True,
    spec={"resourceClaims": [{"name": name, "resourceClaimName": name} for name in ("left", "right")]},
)


@pytest.fixture
def scheduler_stands_still(target: Target) -> Iterator[None]:
    target.cluster.scheduler.freeze()
    yield
    target.cluster.scheduler.thaw()


@pytest.mark.needs(Capability.COMPONENTS)
@pytest.mark.usefixtures("scheduler_stands_still")
async def test_the_most_urgent_pod_opens_an_unallocated_claim_alone(
    namespace: Namespace, target: Target, start_controller: StartController
) -> None:
    devices = await namespace.offer_devices()
    urgent = await namespace.create(objects.priority_class(f"{namespace.name}-urgent"))
    await namespace.create(objects.claim("shared", device_class=devices))
    await namespace.create_all(objects.pods("common", 3, GATED))
    spec = {"priorityClassName": urgent["metadata"]["name"]}
    await namespace.create(objects.pod("urgent", PodShape(claim="shared", gated=True, spec=spec)))

    await start_controller(configuration=ALONE)
    await eventually(lambda: _let_go(namespace), until=lambda names: names == {"urgent"}, saying="one pod is let go")
    await steadily(lambda: _only(namespace, "urgent"), lasting=2, saying="the others wait for the allocation")
    async with namespace.history("shared") as history:
        target.cluster.scheduler.thaw()
        await steps.pods_run(namespace)
    assert listed(next(v.object for v in history.versions if allocated(v.object))) == {"urgent"}


@pytest.mark.usefixtures("controller")
async def test_an_opener_that_fits_nowhere_passes_its_turn(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices))
    misfit = PodShape(claim="shared", gated=True, spec=steps.UNSCHEDULABLE)
    await namespace.create(objects.pod("misfit", misfit))
    await steps.pod_is(namespace, "misfit", steps.unschedulable, saying="it was let go and fits nowhere")
    await namespace.create_all(objects.pods("worker", 3, GATED))
    await steadily(lambda: _only(namespace, "misfit"), lasting=3, saying="it is the misfit's turn")  # of ten seconds
    await steps.pods_run(namespace, "worker-0", "worker-1", "worker-2")
    assert not bound(await namespace.get(PODS, "misfit"))


@pytest.mark.usefixtures("controller")
async def test_a_pod_whose_claim_is_missing_is_let_go(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.pod("early", GATED))
    await eventually(lambda: _let_go(namespace), until=bool, saying="it has nothing to wait for")
    await namespace.create(objects.claim("shared", device_class=devices))
    await steps.pods_run(namespace, "early")


@pytest.mark.modes(Mode.ALONGSIDE)
@pytest.mark.usefixtures("controller")
async def test_a_pod_with_a_claim_of_its_own_is_let_go(namespace: Namespace) -> None:
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim_template("each", device_class=devices))
    await namespace.create(objects.pod("loner", PodShape(claim_template="each", gated=True)))
    await steps.pods_run(namespace, "loner")


@pytest.mark.usefixtures("controller")
@pytest.mark.needs(Feature.PARTLY_ALLOCATED_PODS)
async def test_a_pod_of_two_claims_waits_until_both_are_ready(namespace: Namespace) -> None:
    """One is in use, the other waits for an opener that fits nowhere: the pod is let go when its turn comes there."""
    devices = await namespace.offer_devices(2)
    await namespace.create(objects.deployment("crew", PodShape(), replicas=0))
    for name in ("left", "right"):
        await namespace.create(objects.claim(name, device_class=devices, reserved_for="deployments.apps/crew"))
    await namespace.create(objects.pod("user", PodShape(claim="left")))
    misfit = PodShape(claim="right", gated=True, spec=steps.UNSCHEDULABLE)
    await namespace.create(objects.pod("misfit", misfit))
    await steps.pod_is(namespace, "misfit", steps.unschedulable, saying="it was let go and fits nowhere")
    async with namespace.history("left") as left, namespace.history("pair", resource=PODS) as pair:
        await namespace.create(objects.pod("pair", BOTH))
        await steps.claim_is(namespace, "left", lambda claim: "pair" in listed(claim), saying="the pair is listed")
        await steadily(lambda: _gated(namespace, "pair"), lasting=4, saying="the other claim is not ready")
        await steps.pods_run(namespace, "pair")
    assert "pair" in listed(_when_let_go(pair, left))


@pytest.mark.usefixtures("controller")
async def test_pods_of_either_claim_and_of_both_do_not_wait_for_each_other(namespace: Namespace) -> None:
    devices = await namespace.offer_devices(2)
    shapes = {"pair": BOTH, "left": PodShape(claim="left", gated=True), "right": PodShape(claim="right", gated=True)}
    mixed = [objects.pod(f"{name}-{number}", shape) for number in range(4) for name, shape in shapes.items()]
    for name in ("right", "left"):
        await namespace.create(objects.claim(name, device_class=devices))
    await namespace.create_all(mixed)
    await steps.pods_run(namespace)


@pytest.mark.usefixtures("controller")
async def test_listed_pods_are_let_go_and_run(namespace: Namespace) -> None:
    """Every pod is in the list of the claim, which others opened, before it loses its gate."""
    devices = await namespace.offer_devices()
    await namespace.create(objects.claim("shared", device_class=devices))
    await namespace.create(objects.pod("opener", PodShape(claim="shared")))
    await steps.pods_run(namespace, "opener")
    async with namespace.history("shared") as claim, namespace.history("worker-7", resource=PODS) as worker:
        await namespace.create_all(objects.pods("worker", 10, GATED))
        await steps.pods_run(namespace)
    assert "worker-7" in listed(_when_let_go(worker, claim))


def _when_let_go(pod: WatchHistory, claim: WatchHistory) -> Json:
    """Return the claim as it was when the pod lost its gates."""
    moment = next(revision(version.object) for version in pod.versions if not steps.gates(version.object))
    found = steps.in_force(claim, moment)
    assert found is not None
    return found


async def _let_go(namespace: Namespace) -> set[str]:
    return {pod["metadata"]["name"] for pod in await namespace.all(PODS) if not steps.gates(pod)}


async def _only(namespace: Namespace, name: str) -> bool:
    return await _let_go(namespace) == {name}


async def _gated(namespace: Namespace, name: str) -> bool:
    return steps.gates(await namespace.get(PODS, name)) == [objects.GATE]
