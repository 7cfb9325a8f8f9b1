"""Where waiting pods could run is read when it is asked for, once for all questions."""

import asyncio

import msgspec
import pytest

from controller.placement_reader import NODES_READ_ONE_BY_ONE, READ_PAUSE_MIN, PlacementReader
from dra.api.reservations.model import Reservation
from dra.cel import memory_leaks
from dra.engine.claims.actions import LookUpPlacements
from dra.kube.shared_informers import SharedInformers
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid
from dra.model.taints import DeviceTaintRule
from tests.controller.cluster import CLAIMS, CLASSES, NODES, PODS, SLICES, Cluster
from tests.dra.kube.scripted import refusal

DRIVER = "gpu.example.com"
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
READY = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4", "pods": "9"}}


def only(node):
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}


@pytest.fixture
def cluster():
    """Claim ``train`` has the only device of ``n1``, which is full; ``n2`` has another one, and room."""
    found = Cluster()
    found.put(CLASSES, None, "gpu", spec={})
    for node in ("n1", "n2"):
        found.put(NODES, None, node, status=READY)
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        found.put(
            SLICES, None, node, spec={"driver": DRIVER, "pool": pool, "nodeName": node, "devices": [{"name": "g"}]}
        )
    result = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": "g"}
    status = {"allocation": {"devices": {"results": [result]}, "nodeSelector": only("n1")}}
    found.put(CLAIMS, "ml", "train", spec=SPEC, status=status)
    fill(found, "n1")
    entries = [{"name": "gpu", "resourceClaimName": "train"}]
    found.put(PODS, "ml", "a", spec={"resourceClaims": entries, "containers": [asks("1")]}, status={"phase": "Pending"})
    return found


def asks(cpu):
    return {"resources": {"requests": {"cpu": cpu}}}


def fill(cluster, node):
    cluster.put(
        PODS, "other", f"on-{node}", spec={"nodeName": node, "containers": [asks("4")]}, status={"phase": "Running"}
    )


@pytest.fixture
def observe(world):
    """Show the world a claim once more."""
    return lambda claim: world.observe_claim(msgspec.convert(claim, ResourceClaim), now=0.0)


@pytest.fixture
async def ask(cluster, world, clock, runtime_of):
    """Put the question about the claim, and return what the world hears."""
    claim = cluster.objects[cluster.path(CLAIMS, "ml", "train")]
    world.observe_claim(msgspec.convert(claim, ResourceClaim), now=0.0)
    world.taints.slices_known()
    woken, runtime = asyncio.Event(), runtime_of(cluster)
    informers = SharedInformers(runtime.client, clock=clock)
    informers.on_batch_end(woken.set)
    reader = PlacementReader(runtime, informers, cache=world)
    running = asyncio.create_task(reader.run())

    async def answer(times=1):
        woken.clear()
        for _ in range(times):
            reader.request(LookUpPlacements(claim=("ml", "train"), pods=(Uid("uid-a"),)))
        await woken.wait()
        return world.view(("ml", "train"), now=clock.now()).placements

    yield answer
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_pod_could_run_on_another_node(ask):
    found = await ask()
    assert (found.fit_here, found.fit_elsewhere, found.only_lacks_room) == (frozenset(), {"uid-a"}, True)


@pytest.mark.parametrize(
    ("node", "leaving", "unbindable"),
    [
        pytest.param("n1", False, True, id="full"),
        pytest.param("n1", True, False, id="its-pod-is-being-deleted"),
        pytest.param("gone", False, True, id="no-such-node"),
    ],
)
async def test_a_nomination_to_a_node_that_cannot_take_the_pod_is_found(ask, cluster, node, leaving, unbindable):
    cluster.objects[cluster.path(PODS, "ml", "a")]["status"]["nominatedNodeName"] = node
    if leaving:
        filler = cluster.objects[cluster.path(PODS, "other", "on-n1")]
        filler["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z"
    found = await ask()
    assert found.unbindable_nominations == (frozenset({("uid-a", node)}) if unbindable else frozenset())


async def test_nowhere_if_that_node_is_full(ask, cluster):
    fill(cluster, "n2")
    found = await ask()
    assert (found.fit_here, found.fit_elsewhere, found.pods) == (frozenset(), frozenset(), {"uid-a"})


@pytest.mark.parametrize(
    ("effect", "elsewhere"),
    [
        pytest.param("NoSchedule", set(), id="keeps-devices-from-being-allocated"),
        pytest.param("None", {"uid-a"}, id="without-effect"),
    ],
)
async def test_nor_if_a_device_taint_rule_taints_its_devices(ask, world, effect, elsewhere):
    taint = {"key": "service", "effect": effect, "timeAdded": "2026-11-20T11:00:00Z"}
    content = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"pool": "n2"}, "taint": taint}}
    world.taints.observe_rule(msgspec.convert(content, DeviceTaintRule))
    assert (await ask()).fit_elsewhere == elsewhere


@pytest.mark.parametrize(
    ("version", "elsewhere"),
    [
        pytest.param("v1.37.2", set(), id="1.37-knows-two-capacities"),
        pytest.param("v1.38.0", {"uid-a"}, id="1.38-knows-one"),
        pytest.param(None, set(), id="a-version-that-cannot-be-read-is-old"),
    ],
)
async def test_the_devices_are_chosen_as_by_the_allocator_of_the_servers_version(
    ask, cluster, observe, version, elsewhere
):
    """A capacity with the driver's domain is asked for, and published without; no allocation is given up in vain."""
    if version is not None:
        cluster.discovery["/version"] = {"gitVersion": version}
    for node in ("n1", "n2"):
        (device,) = cluster.objects[cluster.path(SLICES, None, node)]["spec"]["devices"]
        device["capacity"] = {"memory": {"value": "8Gi"}}
    exactly = {"deviceClassName": "gpu", "capacity": {"requests": {f"{DRIVER}/memory": "8Gi"}}}
    status = cluster.objects[cluster.path(CLAIMS, "ml", "train")]["status"]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    observe(cluster.put(CLAIMS, "ml", "train", spec=spec, status=status))
    assert (await ask()).fit_elsewhere == elsewhere


async def test_nor_if_a_reservation_holds_its_room(ask, world):
    world.watch_reservations()
    content = {
        "metadata": {"name": "r", "uid": "uid-r"},
        "spec": {"template": {"spec": {"containers": [asks("4")]}}, "owners": [{"labelSelector": {}}]},
        "status": {"phase": "Available", "nodeName": "n2", "allocatable": {"cpu": "4"}},
    }
    world.observe_reservation(Uid("uid-r"), Reservation.model_validate(content))
    assert (await ask()).fit_elsewhere == frozenset()


async def test_nor_if_its_kubelet_does_not_report_in(ask, cluster):
    cluster.put(NODES, None, "n2", status={**READY, "conditions": [{"type": "Ready", "status": "Unknown"}]})
    assert (await ask()).fit_elsewhere == frozenset()


@pytest.mark.parametrize(
    ("nodes", "reads"),
    [(NODES_READ_ONE_BY_ONE - 2, NODES_READ_ONE_BY_ONE), (NODES_READ_ONE_BY_ONE, 1)],
    ids=["few", "many"],
)
async def test_pods_are_read_of_the_nodes_that_matter(ask, cluster, nodes, reads):
    more_nodes(cluster, nodes)
    await ask()
    assert sum(r.path == PODS for r in cluster.requests) == reads


async def test_several_questions_cost_one_read_and_the_next_one_waits(ask, cluster, clock):
    await ask(times=50)
    first = clock.now()
    assert sum(r.path == SLICES for r in cluster.requests) == 1
    await ask()
    assert clock.now() - first == pytest.approx(READ_PAUSE_MIN)
    assert sum(r.path == SLICES for r in cluster.requests) == 2


async def test_a_question_is_answered_once(ask, cluster):
    await ask()
    await asyncio.sleep(3 * READ_PAUSE_MIN)
    assert sum(r.path == SLICES for r in cluster.requests) == 1


async def test_what_may_not_be_read_is_told_as_the_answer(ask, cluster):
    cluster.refuse[CLASSES] = refusal(403, "Forbidden")
    found = await ask()
    assert (found.fit_elsewhere, found.pods) == (frozenset(), {"uid-a"})
    assert "other placements are unknown" in found.error


async def test_a_claim_that_nobody_understands_is_told_as_well(ask, cluster):
    cluster.drop(CLASSES, None, "gpu")
    assert "device class gpu does not exist" in (await ask()).error


async def test_what_one_claim_breaks_is_told_and_the_next_question_answered(ask, monkeypatch):
    def fails(*_, **__):
        raise KeyError("value")

    with monkeypatch.context() as broken:
        broken.setattr("dra.engine.claims.placements.allocate", fails)
        assert "KeyError" in (await ask()).error
    assert (await ask()).fit_elsewhere == {"uid-a"}


@pytest.fixture
def slow_selectors(monkeypatch):
    """Each selector takes 0.3 s for a device: CEL of ten thousand iterations does."""

    def matches(self, device):
        del self, device
        asyncio.get_running_loop().pass_without_rest(0.3)
        return True

    monkeypatch.setattr("dra.cel.device_selectors.CompiledSelector.evaluate", matches)


async def longest_wait(during):
    """Return for how long another task has waited for its turn at most."""
    loop, gaps = asyncio.get_running_loop(), []

    async def work():
        while True:
            began = loop.time()
            await asyncio.sleep(0.01)
            gaps.append(loop.time() - began)

    working = asyncio.create_task(work())
    found = await during
    working.cancel()
    return found, max(gaps)


def selecting(cluster, *selectors, claim="train"):
    """Have a claim ask for a device with selectors of its user that read what each device has otherwise."""
    asked = [{"cel": {"expression": f'size(device.attributes["{DRIVER}"]) < 9 && {text} > 0'}} for text in selectors]
    exactly = {"deviceClassName": "gpu", "selectors": asked}
    status = cluster.objects[cluster.path(CLAIMS, "ml", "train")]["status"]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return cluster.put(CLAIMS, "ml", claim, spec=spec, status=status)


def more_nodes(cluster, number):
    for n in range(number):
        node = f"more-{n}"
        cluster.put(NODES, None, node, status=READY)
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        device = {"name": "g", "attributes": {"serial": {"string": node}}}
        cluster.put(SLICES, None, node, spec={"driver": DRIVER, "pool": pool, "nodeName": node, "devices": [device]})


@pytest.mark.usefixtures("slow_selectors")
async def test_selectors_that_take_long_keep_nobody_else_waiting(ask, cluster, observe):
    observe(selecting(cluster, 1, 2, 3))
    more_nodes(cluster, 5)
    found, waited = await longest_wait(ask())
    assert found.fit_elsewhere == {"uid-a"}
    assert waited == pytest.approx(0.3, abs=0.05)


@pytest.mark.usefixtures("slow_selectors")
async def test_a_search_that_takes_too_long_is_given_up_and_told(ask, cluster, observe):
    observe(selecting(cluster, *range(1, 21)))
    more_nodes(cluster, 20)
    found, waited = await longest_wait(ask())
    assert (found.fit_elsewhere, found.pods) == (frozenset(), {"uid-a"})
    assert "took more than 10 s" in found.error
    assert waited == pytest.approx(0.3, abs=0.05)


async def test_more_selectors_than_answers_are_kept_of_are_told(ask, cluster, observe):
    observe(selecting(cluster, *range(1, 70)))
    assert "the claim has 69 CEL selectors, and at most 64 are evaluated" in (await ask()).error


async def test_selectors_lose_no_more_memory_than_their_namespace_may(ask, cluster, observe, monkeypatch):
    monkeypatch.setattr("controller.placement_reader.LEAK_LIMIT_PER_NAMESPACE", 20_000)
    before = memory_leaks.leaked_bytes()
    text = "x" * 3_000
    observe(selecting(cluster, *(f"(isQuantity('{n}{text}') ? 0 : 1)" for n in range(3))))
    more_nodes(cluster, 30)
    assert "have used up their memory" in (await ask()).error
    lost = memory_leaks.leaked_bytes() - before
    assert 20_000 < lost < 20_000 + 4_000, "one selector for one device goes beyond"
    assert "have used up their memory" in (await ask()).error
    assert memory_leaks.leaked_bytes() - before == lost, "no selector is asked any more"
    observe(selecting(cluster, 1))
    assert (await ask()).fit_elsewhere == {"uid-a"}, "others are"
