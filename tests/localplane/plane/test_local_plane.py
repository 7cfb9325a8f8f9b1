import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dra.kube.errors import NotFound
from dra.kube.resources import PODS
from dra.kube.transport import Request
from dra.model.meta import PartialObjectMetadata
from localplane.fault_injection import Fault, FaultRule
from localplane.objects import decode, encode
from localplane.plane import components, local_plane
from localplane.plane.options import PlaneOptions
from localplane.plane.supervisor import RESTART_DELAY, ComponentDiedError
from tests.dra.kube.virtual import LoopClock, seeded

VIRTUAL_TIME = True


@pytest.fixture
async def made(monkeypatch):
    """A plane without components."""
    monkeypatch.setattr(components, "component_starters", lambda *_, **__: {})
    return local_plane.LocalPlane(PlaneOptions(nodes=1), clock=LoopClock(), random=seeded(1))


async def ask(made, method, path, body=None, *, agent="kubectl/v1.36.3"):
    raw = body if body is None or isinstance(body, bytes) else encode(body)
    return await made.handle(Request(method=method, path=path, body=raw, agent=agent, timeout=10.0))


async def create(made, name):
    return await ask(made, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})


async def names(made):
    found = await ask(made, "GET", "/api/v1/namespaces/default/configmaps")
    return [each["metadata"]["name"] for each in decode(found.body)["items"]]


async def test_a_component_that_dies_takes_the_plane_down(made):
    async def fail():
        await asyncio.sleep(1)
        raise ValueError("oh")

    made.add_component("good", asyncio.Event().wait)
    made.add_component("bad", fail)
    with pytest.raises(ExceptionGroup) as failed:
        await made.run()
    assert failed.group_contains(ComponentDiedError, match="bad failed")


async def test_components_are_clients_with_ways_of_their_own(made):
    made.faults.set([FaultRule(fault=Fault.ERROR, component="scheduler")])
    with pytest.raises(NotFound):
        await made.client("kubelet").get(PODS, ("default", "x"), PartialObjectMetadata)
    assert (await create(made, "a")).status == 201
    assert (await ask(made, "GET", "/api/v1/pods", agent="scheduler/1")).status == 500


async def test_a_crash_hits_the_component_between_its_requests(made):
    starts = []

    async def part():
        starts.append(LoopClock().now())
        while True:
            await asyncio.sleep(10)
            await made.handler_for("part").handle(Request(method="GET", path="/api/v1/pods", timeout=10.0))

    made.add_component("part", part)
    running = asyncio.create_task(made.run())
    made.faults.set([FaultRule(fault=Fault.CRASH, component="part", times=1)])
    await asyncio.sleep(30)
    assert starts == pytest.approx([0, 10 + RESTART_DELAY])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_saved_state_goes_on_in_another_plane(made):
    await create(made, "a")
    other = local_plane.LocalPlane(PlaneOptions(nodes=1), clock=LoopClock(), random=seeded(2))
    await create(other, "b")
    other.restore(made.snapshot())
    assert await names(other) == ["a"]
    await create(other, "c")
    assert await names(other) == ["a", "c"]


async def test_the_owner_looks_at_the_plane(made):
    made.add_component("part", asyncio.Event().wait)
    running = asyncio.create_task(made.run())
    await asyncio.sleep(0.1)
    shown = decode((await ask(made, "GET", "/dra")).body)
    assert shown["components"] == {"part": {"crashes": 0}}
    assert shown["beside"] == {}
    assert (shown["api"], shown["nodes"]) == ("kep", 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_owner_sets_adds_and_takes_away_rules(made):
    conflict, busy = {"fault": "conflict"}, {"fault": "busy", "times": 1, "verb": "create"}
    assert (await ask(made, "PUT", "/dra/faults", {"rules": [conflict]})).status == 200
    shown = decode((await ask(made, "POST", "/dra/faults", {"rules": [busy]})).body)
    assert [rule["fault"] for rule in shown["rules"]] == ["conflict", "busy"]
    assert (await create(made, "a")).status == 429
    shown = decode((await ask(made, "GET", "/dra/faults")).body)
    assert ([rule["fault"] for rule in shown["rules"]], shown["counts"]) == (["conflict"], {"busy": 1})
    assert decode((await ask(made, "DELETE", "/dra/faults")).body)["rules"] == []


async def test_the_owner_crashes_a_component(made):
    made.add_component("part", asyncio.Event().wait)
    running = asyncio.create_task(made.run())
    await asyncio.sleep(0.1)
    assert (await ask(made, "POST", "/dra/components/part/crash")).status == 200
    await asyncio.sleep(0.1)
    assert made.supervisor.crashes["part"] == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_owner_saves_and_restores(made):
    await create(made, "a")
    saved = (await ask(made, "GET", "/dra/snapshot")).body
    await create(made, "b")
    restored = decode((await ask(made, "PUT", "/dra/snapshot", saved)).body)
    assert restored["restored"] == json.loads(saved.splitlines()[0])["objects"]
    assert await names(made) == ["a"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "expected"),
    [
        pytest.param("PUT", "/dra/faults", {"rules": [{"fault": "flood"}]}, 400, "'flood'", id="no-such-fault"),
        pytest.param("PUT", "/dra/faults", {"rules": [{"fault": "busy", "x": 1}]}, 400, "`x`", id="no-such-field"),
        pytest.param("PUT", "/dra/faults", b"{", 400, "rules cannot be read", id="no-json"),
        pytest.param("PUT", "/dra/snapshot", b"{}\n", 400, "the first line", id="no-snapshot"),
        pytest.param("POST", "/dra/components/x/crash", None, 404, "there are: ", id="no-such-component"),
        pytest.param("GET", "/dra/nothing", None, 404, "GET /dra/nothing", id="no-such-page"),
    ],
)
async def test_what_makes_no_sense_is_refused(made, method, path, body, status, expected):
    refused = await ask(made, method, path, body)
    assert refused.status == status
    assert expected in decode(refused.body)["message"]


def test_a_plane_without_plugins_has_nothing_to_do_with_grpc():
    modules = "localplane.plane.local_plane, dra.cli.local.commands, dra.cli.local.foreground_plane"
    told = f"import sys, {modules}; print('grpc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("options", "expected", "untold"),
    [
        pytest.param(
            {}, ["containers are timers", "all drivers are simulated"], ["plugins keep running"], id="neither"
        ),
        pytest.param({"processes": True}, ["no device nodes, mounts"], ["containers are timers"], id="processes"),
        pytest.param({"plugins": Path("x")}, ["plugins keep running"], ["all drivers are simulated"], id="plugins"),
    ],
)
async def test_what_is_not_enforced_is_told_of_the_plane_at_hand(options, expected, untold):
    made = local_plane.LocalPlane(PlaneOptions(nodes=1, **options), clock=LoopClock(), random=seeded(1))
    text = (await made.handle(Request(method="GET", path="/readyz", query={"verbose": ""}, timeout=10.0))).body.decode()
    assert all(each in text for each in expected)
    assert not any(each in text for each in untold)
