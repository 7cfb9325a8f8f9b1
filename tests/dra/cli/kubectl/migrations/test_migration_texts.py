"""What is told of the jobs that the engine writes, step by step."""

from dra.api.migration.model import parse_pod_migration_job
from dra.cli.kubectl.migrations.migration_texts import describe_migration, next_step, step_text
from dra.cli.kubectl.printers import remedy_text
from dra.engine.diagnosis import migrations
from tests.dra.cli.kubectl.migrations.test_migration_list import NOON as READ_AT
from tests.dra.engine.migration.world import JOB_UID, NOON, OLD_NODE, World, job


class Watched(World):
    """A world whose job is explained after each write."""

    def __init__(self, **more):
        self.told, self.remedies = [], []
        super().__init__(**more)

    def apply(self, action):
        super().apply(action)
        self.look()

    def look(self):
        facts = migrations.explain(parse_pod_migration_job(self.job), from_node=OLD_NODE)
        if not self.told or self.told[-1] != step_text(facts):
            self.told.append(step_text(facts))
            self.remedies.append(remedy_text(next_step(facts)))
        self.facts = facts


def migrated(world):
    for act in (world.place, world.end, world.bind, world.ready):
        world.settle()
        world.now += 1
        act()
    world.settle()
    return world


def test_a_migration_tells_each_step_and_the_command_that_shows_more():
    world = migrated(Watched())
    reservation = f"kubectl dra explain reservation {JOB_UID}"
    assert list(zip(world.told, world.remedies, strict=True)) == [
        ("begins", ""),
        ("waits for a node that has room", reservation),
        ("node node-1 holds the room; the eviction comes next", ""),
        ('evicts the pod: Try to evict Pod "default/web-a"', "kubectl get poddisruptionbudgets -n default"),
        ("waits for the replacement pod to use the room on node node-1", reservation),
        ("waits for pod default/web-b to become Ready on node node-1", "kubectl describe pod web-b -n default"),
        ("moved to node node-1, as pod default/web-b", ""),
    ]
    lines = list(describe_migration(world.facts, now=READ_AT))
    assert lines[:2] == ["migration migration: Succeeded", "  pod       default/web-a, evicted"]
    assert "  new pod   default/web-b" in lines


def test_a_job_that_waits_tells_for_what():
    world = Watched(job=job(passed=False, spec={"paused": True}))
    world.settle()
    assert world.told == ["paused"]


def proposed(**spec):
    annotations = {
        "reserve.dra/approval": "Required",
        "koordinator.sh/evict-trigger": "LowNodeLoad",
        "koordinator.sh/evict-reason": "node is overutilized",
        "reserve.dra/profile": "default",
    }
    return job(passed=False, spec={"paused": True, **spec}, metadata={"annotations": annotations})


def test_a_job_that_waits_for_a_person_tells_both_answers_and_who_wants_the_pod_to_move():
    world = Watched(job=proposed())
    world.settle()
    assert world.told == ["waits for approval"]
    assert world.remedies == [
        "approve migration migration, or reject it: then the pod stays. See kubectl dra approve --help"
    ]
    assert "  why       LowNodeLoad of profile default: node is overutilized" in describe_migration(
        world.facts, now=READ_AT
    )


def test_a_job_whose_reservation_finds_no_node_tells_why_and_then_that_it_failed():
    world = Watched()
    world.settle()
    condition = {"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    world.reservation["status"]["conditions"] = [condition]
    world.settle()
    assert world.told[-1] == "waits for a node that has room: 0/2 nodes"
    world.now = NOON + 61
    world.settle()
    assert world.told[-1].startswith("failed Unschedulable: ")
    assert world.remedies[-1] == "kubectl dra migrate pod/web-a -n default --dry-run"


def test_a_refused_eviction_tells_the_refusal():
    world = Watched()
    world.settle()
    world.place()
    world.evict_error = "Cannot evict pod as it would violate the pod's disruption budget."
    for _ in range(6):
        world.step()
    assert "disruption budget" in world.told[-1]
    assert world.remedies[-1] == "kubectl get poddisruptionbudgets -n default"


def test_evicting_directly_ends_with_the_eviction():
    world = Watched(job=job(spec={"mode": "EvictDirectly"}))
    world.settle()
    world.end()
    world.settle()
    assert world.told[-1] == "evicted"
