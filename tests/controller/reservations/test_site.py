"""Controller and extender together: what becomes of reservations and of the pods that want them."""

import asyncio

import pytest

from dra.engine.scheduling.unschedulable_pods import BATCH_SIZE
from localplane.fault_injection import Fault, FaultRule
from tests.controller.reservations import malformed
from tests.controller.reservations.site import DEFINITIONS, NAMED_FIRST, PODS, RESERVATIONS, Site, ended

ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
AFFINITY = "scheduling.koordinator.sh/reservation-affinity"


async def test_a_reservation_is_placed_by_a_pod_that_is_gone_right_after():
    async with Site() as site:
        await site.reserve("r", "4")
        await site.settle()
        (placeholder,) = await site.pods()
        assert placeholder["spec"]["schedulerName"] == "koord-scheduler"
        await site.turn()
        await site.settle()
        found = await site.reservation("r")
        assert (found["status"]["phase"], found["status"]["nodeName"]) == ("Available", "n1")
        assert found["status"]["allocatable"] == {"cpu": "4"}
        assert await site.pods() == [] or all(pod["metadata"].get("deletionTimestamp") for pod in await site.pods())


async def test_an_owner_gets_what_strangers_do_not():
    async with Site() as site:
        await site.reserve("r", "10")
        await site.place("r")
        await site.pod("stranger", "8")
        await site.pod("owner", "8", app="r")
        bound = await site.turn()
        assert bound["stranger"] is None
        assert bound["owner"] == "n1"
        await site.settle()
        owner = await site.ask("GET", f"{PODS}/owner")
        found = await site.reservation("r")
        assert found["metadata"]["uid"] in owner["metadata"]["annotations"][ALLOCATED]
        assert found["status"]["phase"] == "Succeeded"
        assert [each["name"] for each in found["status"]["currentOwners"]] == ["owner"]
        assert found["status"]["allocated"] == {"cpu": "8"}


async def test_what_an_owner_gives_back_is_held_again():
    async with Site() as site:
        await site.reserve("r", "10", allocateOnce=False)
        await site.place("r")
        await site.pod("owner", "8", app="r")
        await site.turn()
        await site.settle()
        await site.finish("owner")
        await site.settle()
        found = await site.reservation("r")
        assert found["status"]["phase"] == "Available"
        assert "currentOwners" not in found["status"] or not found["status"]["currentOwners"]
        await site.pod("stranger", "8")
        await site.pod("next", "8", app="r")
        bound = await site.turn()
        assert bound["stranger"] is None
        assert bound["next"] == "n1"


async def test_a_reservation_for_once_is_used_once_also_when_the_extender_dies_in_between():
    async with Site() as site:
        await site.reserve("r", "10")
        await site.place("r")
        site.faults.add(FaultRule(fault=Fault.LOST, component="extender", resource="pods/binding", probability=1.0))
        await site.pod("first", "8", app="r")
        assert (await site.turn())["first"] is None
        assert [each["name"] for each in (await site.reservation("r"))["status"]["currentOwners"]] == ["first"]
        site.faults.set([])
        await site.stop_extender()
        await site.start_extender()

        await site.pod("second", "8", app="r")
        second = await site.ask("GET", f"{PODS}/second")
        assert (await site.schedule(second))[0] is None
        assert (await site.turn())["first"] == "n1"


@pytest.mark.parametrize(
    ("node", "error"),
    [pytest.param("n1", "", id="there"), pytest.param("n2", "it is bound to node n2 already", id="elsewhere")],
)
async def test_a_pod_that_is_bound_already_is_a_success_on_that_node(node, error):
    """The pods watch does not show the binding yet: the API server tells of it with a Conflict."""
    async with Site(nodes={"n1": "16", "n2": "16"}) as site:
        pod = await site.pod("p", "4")
        await site.settle()
        target = {"metadata": {"name": "p", "uid": pod["metadata"]["uid"]}, "target": {"kind": "Node", "name": node}}
        await site.ask("POST", f"{PODS}/p/binding", target)
        call = {"PodName": "p", "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "n1"}
        error_text = (await site.call("bind", call))["Error"]
        assert error in error_text if error else error_text == ""
        seat = site.extender.cache.accounting.assignment(pod["metadata"]["uid"])
        assert seat.node == node


async def test_nobody_enters_a_reservation_that_has_ended_though_the_watch_does_not_show_it_yet():
    async with Site() as site:
        await site.reserve("r", "10", **NAMED_FIRST)
        await site.place("r")
        pod = await site.pod("p", "9", app="r")
        await site.settle()
        await site.stop_controller()
        await site.ask("PATCH", f"{RESERVATIONS}/r/status", {"status": {"phase": "Failed"}})
        call = {"PodName": "p", "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": "n1"}
        assert "is not available any more" in (await site.call("bind", call))["Error"]
        assert await site.node_of("p") == ""


async def test_a_read_that_fails_is_tried_again_until_it_tells_what_became_of_a_binding():
    async with Site() as site:
        await site.reserve("r", "10", allocateOnce=False)
        await site.place("r")
        site.faults.add(FaultRule(fault=Fault.LOST, component="extender", resource="pods/binding", times=1))
        owner = await site.pod("owner", "9", app="r")
        assert (await site.schedule(owner))[0] is None
        site.faults.set([FaultRule(fault=Fault.ERROR, component="extender", verb="get", resource="pods", lasting=12.0)])
        await site.settle(11.0)
        assert len(site.extender._confirmer.cache) == 1
        await site.settle(9.0)
        assert len(site.extender._confirmer.cache) == 0
        assert (await site.schedule(owner))[0] == "n1"


@pytest.mark.parametrize("after", [True, False], ids=["done", "not-done"])
@pytest.mark.parametrize("lost", ["pods/binding", "reservations.*/status"])
async def test_what_was_not_answered_stays_held_until_a_read_tells(lost, after):
    async with Site() as site:
        await site.reserve("r", "10", **NAMED_FIRST)
        await site.place("r")
        site.faults.add(FaultRule(fault=Fault.LOST, component="extender", resource=lost, after=after))
        owner = await site.pod("owner", "9", app="r")
        assert (await site.schedule(owner))[0] is None
        site.faults.set([])
        await site.pod("rival", "9", app="r")
        rival = await site.ask("GET", f"{PODS}/rival")
        assert (await site.schedule(rival))[0] is None
        await site.settle(15.0)
        bound = bool(await site.node_of("owner"))
        assert bound is (after and lost == "pods/binding")
        named = [each["name"] for each in (await site.reservation("r"))["status"].get("currentOwners", [])]
        assert named == (["owner"] if bound else [])
        assert (await site.schedule(rival))[0] == (None if bound else "n1")


async def test_a_pod_that_goes_before_it_is_bound_leaves_nothing_behind():
    async with Site() as site:
        await site.reserve("r", "10")
        await site.place("r")
        gone = await site.pod("gone", "8", app="r")
        await site.delete(f"{PODS}/gone")
        assert (await site.schedule(gone))[0] is None
        await site.settle(3.0)
        found = await site.reservation("r")
        assert (found["status"]["phase"], found["status"].get("currentOwners", [])) == ("Available", [])
        await site.pod("next", "8", app="r")
        assert (await site.turn())["next"] == "n1"


async def test_what_fits_nowhere_says_so_and_ends_in_time():
    async with Site() as site:
        await site.reserve("r", "100", ttl="60s")
        await site.settle()
        await site.turn()
        await site.settle()
        found = await site.reservation("r")
        (condition,) = found["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Scheduled", "False", "Unschedulable")
        assert "Insufficient cpu by node" in condition["message"]
        await site.settle(61.0)
        assert (await site.reservation("r"))["status"]["phase"] == "Failed"
        assert [pod for pod in await site.pods() if not pod["metadata"].get("deletionTimestamp")] == []


async def test_what_has_ended_is_deleted_a_day_later():
    async with Site() as site:
        await site.reserve("r", "1", ttl="60s")
        await site.place("r")
        await site.settle(65.0)
        assert (await site.reservation("r"))["status"]["phase"] == "Failed"
        await site.settle(24 * 3600.0 + 700)
        assert await site.reservations() == []


async def test_the_end_of_a_reservation_makes_the_scheduler_look_at_waiting_pods_again():
    async with Site() as site:
        await site.reserve("r", "16")
        await site.place("r")
        await site.pod("waiting", "8")
        await site.turn()
        await site.delete(f"{RESERVATIONS}/r")
        await site.settle(3.0)
        assert "reserve.dra/look-again" in (await site.ask("GET", f"{PODS}/waiting"))["metadata"]["annotations"]
        assert (await site.turn())["waiting"] == "n1"


async def touched(site):
    return {
        pod["metadata"]["name"]
        for pod in await site.pods()
        if "reserve.dra/look-again" in pod["metadata"].get("annotations", {})
    }


async def test_none_of_many_waiting_pods_is_forgotten_when_reservations_end_one_after_the_other():
    async with Site() as site:
        for name in ("r1", "r2"):
            await site.reserve(name, "8")
            await site.place(name)
        names = {f"waiting-{number}" for number in range(2 * BATCH_SIZE + 1)}
        for name in names:
            await site.pod(name, "10")
        await site.turn()
        for name in ("r1", "r2"):
            await site.delete(f"{RESERVATIONS}/{name}")
            await site.settle(1.2)
        await site.settle(2.0)
        assert await touched(site) == names


async def test_what_ended_while_there_was_no_extender_makes_the_scheduler_look_again_too():
    async with Site() as site:
        await site.reserve("r", "16")
        await site.place("r")
        await site.pod("waiting", "8")
        await site.turn()
        await site.pod("not-refused-yet", "1")
        await site.stop_extender()
        await site.delete(f"{RESERVATIONS}/r")
        await site.start_extender()
        await site.settle(3.0)
        assert await touched(site) == {"waiting"}


async def test_a_node_that_goes_ends_its_reservations():
    async with Site() as site:
        await site.reserve("r", "4")
        await site.place("r")
        await site.delete("/api/v1/nodes/n1")
        await site.ask("PATCH", f"{RESERVATIONS}/r", {"metadata": {"labels": {"a": "b"}}})
        await site.settle()
        assert (await site.reservations()) == []


async def test_a_reservation_that_cannot_be_read_says_so_and_breaks_none():
    async with Site() as site:
        await site.reserve("r", "4")
        bad = await site.reserve("bad", "4")
        annotation = {"scheduling.koordinator.sh/reservation-resize-allocatable": '{"resources": {"cpu": "x"}}'}
        await site.ask("PATCH", f"{RESERVATIONS}/bad", {"metadata": {"annotations": annotation}})
        found = await site.place("r")
        assert found["status"]["phase"] == "Available"
        conditions = (await site.reservation("bad"))["status"]["conditions"]
        assert [each["type"] for each in conditions] == ["Readable"]
        assert "resources.cpu" in conditions[0]["message"]
        assert bad["metadata"]["name"] == "bad"


async def test_a_reservation_that_only_the_schema_of_others_allows_says_so_and_is_placed_once_it_is_corrected():
    async with Site() as site:
        name = f"{DEFINITIONS}/reservations.scheduling.koordinator.sh"
        versions = (await site.ask("GET", name))["spec"]["versions"]
        anything = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        await site.ask("PATCH", name, {"spec": {"versions": [{**each, "schema": anything} for each in versions]}})
        await site.reserve("r", "4", ttl="soon")
        status = (await site.place("r"))["status"]
        (message,) = [each["message"] for each in status["conditions"] if each["type"] == "Readable"]
        assert "spec.ttl" in message
        await site.ask("PATCH", f"{RESERVATIONS}/r", {"spec": {"ttl": "1h"}})
        assert (await site.place("r"))["status"]["phase"] == "Available"


async def test_thirty_malformed_ones_at_once_are_told_each_what_is_wrong_and_break_none():
    nodes = {f"bad-{name}": "16" for name in malformed.NODES}
    async with Site(nodes={"n1": "16", **nodes}) as site:
        for name, (text, _) in malformed.NODES.items():
            patch = {"metadata": {"annotations": {malformed.KEPT: text}}}
            await site.ask("PATCH", f"/api/v1/nodes/bad-{name}", patch)
        for name, (spec, annotations, _) in malformed.RESERVATIONS.items():
            made = await site.reserve(name, "1", **spec)
            assert made["metadata"]["name"] == name
            await site.ask("PATCH", f"{RESERVATIONS}/{name}", {"metadata": {"annotations": annotations}})
        for name, (annotation, text, _) in malformed.PODS.items():
            await site.pod(name, "1", **{annotation: text})
        await site.reserve("r", "10")
        assert (await site.place("r"))["status"]["phase"] == "Available"
        await site.pod("owner", "10", app="r")
        await site.pod("stranger", "1", **{ALLOCATED: malformed.DEEP})
        bound = await site.turn()
        assert bound["owner"] is not None
        assert bound["stranger"] is not None
        await site.settle(2.0)

        for name, (_, _, expected) in malformed.RESERVATIONS.items():
            status = (await site.reservation(name))["status"]
            (message,) = [each["message"] for each in status["conditions"] if each["type"] == "Readable"]
            assert expected in message, name
            assert status.get("phase") != "Available", name
        invalid = [each for each in await events(site) if each["reason"] == "Invalid"]
        assert sorted(each["regarding"]["name"] for each in invalid) == sorted(malformed.RESERVATIONS)
        assert not any(each.get("series") for each in invalid)
        for name, (annotation, _, expected) in malformed.PODS.items():
            pod = await site.ask("GET", f"{PODS}/{name}")
            assert "nodeName" not in pod["spec"], name
            _, reasons = await site.schedule(pod)
            assert all(
                text.startswith(f"annotation {annotation}: ") and expected in text for text in reasons.values()
            ), name
        notes = {
            each["regarding"]["name"]: each["note"]
            for each in await events(site)
            if each["reason"] == "InvalidNodeReservation"
        }
        for name, (_, expected) in malformed.NODES.items():
            assert expected in notes[f"bad-{name}"], name
        assert len(malformed.RESERVATIONS) + len(malformed.PODS) + len(malformed.NODES) >= 30


async def test_a_forged_annotation_lets_nobody_in():
    async with Site() as site:
        await site.reserve("r", "10")
        found = await site.place("r")
        forged = f'{{"name":"r","uid":"{found["metadata"]["uid"]}"}}'
        await site.pod("thief", "8", **{ALLOCATED: forged})
        assert (await site.turn())["thief"] is None


async def test_an_annotation_that_cannot_be_read_refuses_the_pod_by_name():
    async with Site() as site:
        made = await site.pod("p", "1", **{AFFINITY: "{"})
        _, reasons = await site.schedule(made)
        assert set(reasons.values()) != set()
        assert all(text.startswith(f"annotation {AFFINITY}") for text in reasons.values())


KEPT = "node.koordinator.sh/reservation"


async def events(site):
    return (await site.ask("GET", "/apis/events.k8s.io/v1/events"))["items"]


async def test_what_a_node_keeps_for_itself_is_not_there():
    async with Site() as site:
        await site.ask("PATCH", "/api/v1/nodes/n1", {"metadata": {"annotations": {KEPT: '{"resources":{"cpu":"12"}}'}}})
        await site.pod("big", "6")
        await site.pod("small", "4")
        await site.settle()
        assert await site.turn() == {"big": None, "small": "n1"}
        await site.ask("PATCH", "/api/v1/nodes/n1", {"metadata": {"annotations": {KEPT: None}}})
        await site.settle()
        assert await site.turn() == {"big": "n1"}


async def test_of_an_annotation_that_cannot_be_read_the_last_one_counts_and_an_event_tells():
    async with Site() as site:
        for text in ('{"resources":{"cpu":"12"}}', '{"resources":{"cpu":"-1"}}'):
            await site.ask("PATCH", "/api/v1/nodes/n1", {"metadata": {"annotations": {KEPT: text}}})
            await site.settle()
        await site.pod("big", "6")
        assert (await site.turn())["big"] is None
        await site.settle()
        (event,) = [each for each in await events(site) if each["reason"] == "InvalidNodeReservation"]
        assert event["regarding"]["name"] == "n1"
        assert "resources.cpu: -1 is negative" in event["note"]


MEMORY = "/api/v1/namespaces/default/configmaps/dra-reserve-node-reservations"


@pytest.mark.parametrize(
    ("first", "big"), [pytest.param('{"resources":{"cpu":"12"}}', None, id="some"), pytest.param(None, "n1", id="none")]
)
async def test_an_extender_that_starts_again_knows_what_the_last_valid_annotation_was(first, big):
    async with Site() as site:
        for text in (first, '{"resources":{"cpu":"5", "memory": "-1"}}'):
            await site.ask("PATCH", "/api/v1/nodes/n1", {"metadata": {"annotations": {KEPT: text}}})
            await site.settle()
        await site.settle(0.6)
        assert (await site.ask("GET", MEMORY))["data"] == {"n1": first or ""}, "within about a second"
        for _ in range(2):
            await site.stop_extender()
            await site.start_extender()
        await site.pod("big", "12")
        assert (await site.turn())["big"] == big
        assert (await site.ask("GET", MEMORY))["data"] == {"n1": first or ""}
        await site.ask("PATCH", "/api/v1/nodes/n1", {"metadata": {"annotations": {KEPT: None}}})
        await site.settle(1.1)
        assert not (await site.ask("GET", MEMORY)).get("data")


async def test_what_cannot_be_remembered_stops_nobody(caplog):
    async with Site() as site:
        body = {"metadata": {"name": "dra-reserve-node-reservations"}, "data": {"n1": "{", "gone": ""}}
        await site.ask("POST", "/api/v1/namespaces/default/configmaps", body)
        await site.stop_extender()
        await site.ask("PATCH", "/api/v1/nodes/n1", {"metadata": {"annotations": {KEPT: "]"}}})
        await site.start_extender()
        await site.pod("p", "16")
        assert (await site.turn())["p"] == "n1"
        assert "node n1: stored annotation is malformed, ignored" in caplog.text


async def test_a_pod_that_takes_what_is_held_without_asking_is_reported():
    async with Site() as site:
        await site.reserve("r", "10")
        await site.place("r")
        made = await site.pod("rude", "8")
        binding = {
            "metadata": {"name": "rude", "uid": made["metadata"]["uid"]},
            "target": {"kind": "Node", "name": "n1"},
        }
        await site.ask("POST", f"{PODS}/rude/binding", binding)
        await site.settle()
        (event,) = [each for each in await events(site) if each["reason"] == "ReservedCapacityTaken"]
        assert event["regarding"]["name"] == "rude"
        assert "short of cpu 2" in event["note"]
        await site.delete(f"/apis/events.k8s.io/v1/namespaces/default/events/{event['metadata']['name']}")
        await site.stop_extender()
        await site.start_extender()
        await site.settle()
        assert "ReservedCapacityTaken" not in {each["reason"] for each in await events(site)}, "told before"


async def test_of_two_replicas_one_binds_and_the_other_takes_over_when_no_write_can_be_late():
    async with Site(elect=True) as site:
        first, running = site.extender, site.detach()
        await site.reserve("r", "10")
        await site.settle()
        starting = asyncio.ensure_future(site.start_extender())
        await site.settle(5.0)
        assert not site.extender.is_binding
        (placeholder,) = await site.pods()
        bound, error = await site.schedule(placeholder)
        assert (bound, "is not the leader" in error) == (None, True)

        site.extender, second = first, site.extender
        assert (await site.schedule(placeholder))[0] == "n1"
        await ended(running)
        site.extender = second
        await site.settle(60.0)
        await starting
        assert second.is_binding
        await site.pod("owner", "8", app="r")
        assert (await site.turn())["owner"] == "n1"


async def test_a_replica_that_takes_over_knows_reservations_that_its_watch_has_not_shown():
    async with Site(elect=True) as site:
        first, running = site.extender, site.detach()
        await site.reserve("r", "10")
        await site.settle()
        site.faults.add(FaultRule(fault=Fault.SILENCE, component="extender", verb="watch", resource="reservations.*"))
        starting = asyncio.ensure_future(site.start_extender())
        await site.settle(5.0)
        site.extender, second = first, site.extender
        (placeholder,) = await site.pods()
        assert (await site.schedule(placeholder))[0] == "n1"
        await ended(running)
        site.extender = second
        await site.settle(60.0)
        await starting
        await site.pod("stranger", "8")
        await site.pod("owner", "8", app="r")
        assert await site.turn() == {"stranger": None, "owner": "n1"}


RESIZE = "scheduling.koordinator.sh/reservation-resize-allocatable"


async def test_what_is_held_is_resized_if_the_node_has_room_all_of_it_or_nothing():
    async with Site() as site:
        await site.reserve("r", "4", allocateOnce=False)
        await site.place("r")

        async def resize(cpu):
            text = f'{{"resources": {{"cpu": "{cpu}"}}}}'
            await site.ask("PATCH", f"{RESERVATIONS}/r", {"metadata": {"annotations": {RESIZE: text}}})
            await site.settle(2.0)
            return (await site.reservation("r"))["status"]["allocatable"]

        assert await resize(10) == {"cpu": "10"}
        await site.pod("stranger", "7")
        assert (await site.turn())["stranger"] is None
        assert await resize(17) == {"cpu": "10"}
        (event,) = [each for each in await events(site) if each["reason"] == "ResizeWaits"]
        assert "Insufficient cpu by node" in event["note"]
        assert await resize(9) == {"cpu": "9"}
        assert (await site.turn())["stranger"] == "n1"


async def test_a_resize_that_cannot_be_read_is_reported_and_ends_nothing():
    async with Site() as site:
        await site.reserve("r", "4", allocateOnce=False)
        await site.place("r")
        text = '{"resources": {"cpu": "many"}}'
        await site.ask("PATCH", f"{RESERVATIONS}/r", {"metadata": {"annotations": {RESIZE: text}}})
        await site.settle(2.0)
        (event,) = [each for each in await events(site) if each["reason"] == "ResizeWaits"]
        assert "'many' is not a quantity" in event["note"]
        assert (await site.reservation("r"))["status"]["allocatable"] == {"cpu": "4"}
        assert site.extender.is_binding


async def test_what_owners_have_stays_charged_when_less_is_held():
    async with Site() as site:
        await site.reserve("r", "10", allocateOnce=False)
        await site.place("r")
        await site.pod("owner", "8", app="r")
        await site.turn()
        text = '{"resources": {"cpu": "2"}}'
        await site.ask("PATCH", f"{RESERVATIONS}/r", {"metadata": {"annotations": {RESIZE: text}}})
        await site.settle(2.0)
        assert (await site.reservation("r"))["status"]["allocatable"] == {"cpu": "2"}
        await site.pod("big", "9")
        await site.pod("small", "8")
        assert await site.turn() == {"big": None, "small": "n1"}


async def test_a_place_that_could_not_be_taken_back_by_a_mistake_of_ours_is_free_later(monkeypatch, caplog):
    async with Site() as site:
        await site.reserve("r", "10", allocateOnce=False)
        await site.place("r")
        doubts = site.extender._confirmer
        roll_back, failures = doubts.roll_back, [TypeError("no such attribute")]

        async def clumsy(doubt, *, deadline):
            if failures:
                raise failures.pop()
            await roll_back(doubt, deadline=deadline)

        monkeypatch.setattr(doubts, "roll_back", clumsy)
        site.faults.add(FaultRule(fault=Fault.REFUSED, component="extender", resource="pods/binding"))
        owner = await site.pod("owner", "9", app="r")
        assert (await site.schedule(owner))[0] is None
        await site.delete(f"{PODS}/owner")
        site.faults.set([])
        await site.settle(15.0)
        assert "pod default/owner: removal from the reservation failed" in caplog.text
        assert (await site.reservation("r"))["status"].get("currentOwners", []) == []
        await site.pod("rival", "9", app="r")
        assert (await site.turn())["rival"] == "n1"


async def test_reservations_are_spread_over_empty_nodes():
    """kube-scheduler forgets what is held as soon as a placeholder is gone: the extender's scores remember."""
    nodes = {f"n{number}": "16" for number in range(6)}
    async with Site(nodes=nodes) as site:
        for name in nodes:
            await site.reserve(f"r-{name}", "1")
            await site.place(f"r-{name}")
        placed = [each["status"]["nodeName"] for each in await site.reservations()]
        assert sorted(placed) == sorted(nodes)


async def test_a_node_that_repels_softly_is_no_better_for_being_empty():
    async with Site(nodes={"n1": "16", "n2": "16"}) as site:
        taint = {"key": "k", "effect": "PreferNoSchedule"}
        await site.ask("PATCH", "/api/v1/nodes/n2", {"spec": {"taints": [taint]}})
        await site.settle()
        await site.reserve("first", "1")
        assert (await site.place("first"))["status"]["nodeName"] == "n1"
        await site.reserve("second", "1")
        assert (await site.place("second"))["status"]["nodeName"] == "n1"
