"""The rows of the page are those of the commands, whatever changed in which order."""

import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra.cli.kubectl.diagnosis import audit as audit_command
from dra.cli.kubectl.diagnosis.get import claim_row, device_row
from dra.cli.page import page_tables
from dra.cli.page.page_rows import node_state
from dra.cli.page.page_tables import PageTables
from dra.cli.page.views import COLUMNS, STATE_COLUMNS
from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis import audit, claims
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import devices
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence, Snapshot, UnreadResource
from dra.model.meta import ObjectMeta, UnstructuredObject
from dra.model.preemption import PodDisruptionBudget
from dra.model.templates import ResourceClaimTemplate
from tests.dra.engine.diagnosis.cluster_states import (
    JOB,
    NOBODY,
    SOMEBODY,
    claim,
    entry,
    node,
    offer,
    offer_partitions,
    pod,
    snapshot,
    workload,
)

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def unschedulable(content):
    condition = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available."}
    return content | {"status": content["status"] | {"conditions": [condition]}}


def reservation(name, *, phase="Available", node="n1", ttl="24h"):
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-11-20T11:00:00Z"},
        "spec": {"template": {"spec": {}}, "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}], "ttl": ttl},
        "status": {"phase": phase, "nodeName": node},
    }


def migration(name, *, of="a", phase="Pending"):
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-11-20T11:30:00Z"},
        "spec": {"podRef": {"namespace": "ml", "name": of}, "ttl": "10m"},
        "status": {"phase": phase},
    }


# Each claim has devices of its own: of two claims on one device, a command blames the later in the alphabet, the page
# the later in time.
DEVICES = {"x": "n1/gpu-0", "y": "n1/gpu-1", "z": "n2/gpu-2"}
OTHER_DEVICES = {"x": "n2/gpu-0", "y": "n2/gpu-1", "z": "n1/gpu-2"}

FOR_TRAIN = {"reserve.dra/reserved-for": "jobs.batch/train"}

CLAIM_VARIANTS = (
    claim,
    lambda name: claim(name, DEVICES[name], listed=(entry("a"),)),
    lambda name: claim(name, DEVICES[name]),
    lambda name: claim(
        name,
        OTHER_DEVICES[name],
        listed=(JOB, entry("b")),
        annotations={"reserve.dra/reserved-for": "jobs.batch/train"},
    ),
    lambda name: claim(name, f"n1/gpu-{name}", listed=(entry("gone"),)),
    lambda name: claim(name, annotations=FOR_TRAIN),
)
POD_VARIANTS = (
    lambda name: pod(name, "x"),
    lambda name: pod(name, "x", schedulingGates=[{"name": "reserve.dra/claim"}]),
    lambda name: pod(name, "x", "y", schedulingGates=[{"name": "reserve.dra/claim"}]),
    lambda name: pod(name, "x", on="n1", phase="Running", started=True),
    lambda name: pod(name, "y", on="n2"),
    lambda name: pod(name, "x", on="n1", phase="Succeeded"),
    lambda name: pod(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]),
    lambda name: pod(name, containers=[{"name": "main", "resources": {"limits": {"koordinator.sh/gpu": "50"}}}]),
    lambda name: unschedulable(pod(name, "x")),
)
NODE_VARIANTS = (
    node,
    lambda name: node(name, ready=False),
    lambda name: node(name, cordoned=True),
)
SLICE_VARIANTS = (offer, lambda name: offer(name, devices=1), lambda name: offer(name, devices=3), offer_partitions)

RESERVATION_VARIANTS = (
    reservation,
    lambda name: reservation(name, phase="Succeeded"),
    lambda name: reservation(name, node="n2", ttl="1h30m"),
    lambda name: reservation(name, phase="Pending", node=""),
)


def proposed(name, *, began="2026-11-20T11:30:00Z", **more):
    """A job of the descheduler that waits for a person."""
    found = migration(name, **more)
    found["metadata"]["annotations"] = {
        "koordinator.sh/evict-trigger": "LowNodeLoad",
        "koordinator.sh/evict-reason": "node is overutilized",
        "reserve.dra/approval": "Required",
        "reserve.dra/profile": "default",
        "reserve.dra/descheduling-round": began,
    }
    found["spec"]["paused"] = True
    return found


MIGRATION_VARIANTS = (
    migration,
    lambda name: migration(name, of="b"),
    lambda name: migration(name, phase="Succeeded"),
    proposed,
)
DESCHEDULER = ControllerLease(presence=ControllerPresence.RUNNING, name="dra-reserve/dra-reserve-descheduler")
BUDGET = {
    "metadata": {"namespace": "ml", "name": "all"},
    "spec": {"selector": {}},
    "status": {"disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3, "expectedPods": 3},
}

TEMPLATE = {"metadata": {"name": "one-gpu", "namespace": "ml"}}
SURROUNDINGS = {
    "workloads": tuple(
        (workload(phase),) for phase in (WorkloadPhase.PRESENT, WorkloadPhase.FINISHED, WorkloadPhase.ABSENT)
    ),
    "templates": ((), msgspec.convert((TEMPLATE,), tuple[ResourceClaimTemplate, ...])),
    "enabled_namespaces": ({}, {"ml": False}, {"ml": True}),
    "leader": (NOBODY, SOMEBODY, msgspec.structs.replace(NOBODY, presence=ControllerPresence.STALE)),
    "descheduler": (DESCHEDULER, msgspec.structs.replace(DESCHEDULER, presence=ControllerPresence.ABSENT)),
    "budgets": ((), msgspec.convert((BUDGET,), tuple[PodDisruptionBudget, ...])),
}
"""Field of a snapshot → its values."""

KINDS = {
    "claims": (("x", "y", "z"), CLAIM_VARIANTS),
    "pods": (("a", "b", "c"), POD_VARIANTS),
    "nodes": (("n1", "n2"), NODE_VARIANTS),
    "slices": (("n1", "n2"), SLICE_VARIANTS),
    "reservations": (("r", "s"), RESERVATION_VARIANTS),
    "migrations": (("m",), MIGRATION_VARIANTS),
}
CHANGES = st.one_of(
    *(
        st.tuples(st.just(kind), st.sampled_from(names), st.none() | st.integers(0, len(variants) - 1))
        for kind, (names, variants) in KINDS.items()
    ),
    *(
        st.tuples(st.just(kind), st.just(""), st.integers(0, len(variants) - 1))
        for kind, variants in SURROUNDINGS.items()
    ),
    st.just(("time", "", 6 * 3600)),
)


class Cluster:
    """A small cluster that changes: its objects, a live view of it, and what a command would read."""

    def __init__(self):
        self.live = LiveCluster()
        self.live.set_served(reservations=True, migrations=True)
        self.tables = PageTables(self.live)
        self.now = NOW
        self.objects = {}
        self.surroundings = {kind: variants[0] for kind, variants in SURROUNDINGS.items()}
        self._versions = itertools.count(1)
        self._set_surroundings()

    def change(self, kind, name, variant):
        if kind == "time":
            self.now += timedelta(seconds=variant)
            self.tables.mark_sums_due()  # as a round of diagnoses does
            return
        if kind in SURROUNDINGS:
            self.surroundings[kind] = SURROUNDINGS[kind][variant]
            self._set_surroundings()
            return
        known = self.objects.pop((kind, name), None)
        if variant is not None:
            content = KINDS[kind][1][variant](name)
            content["metadata"]["resourceVersion"] = str(next(self._versions))
            if kind not in {"pods", "nodes", "slices"}:
                uid = known.metadata.uid if known is not None else f"uid-{name}-{next(self._versions)}"
                content["metadata"]["uid"] = uid
            self.objects[kind, name] = converted(kind, content)
            self.observe(kind, self.objects[kind, name])
        elif known is not None:
            getattr(self.live, f"forget_{kind[:-1]}")(known)
        if kind in {"reservations", "migrations"}:
            self.tables.mark_sums_due()  # as the feed does

    def observe(self, kind, found):
        getattr(self.live, f"observe_{kind[:-1]}")(found)

    def read(self):
        """Return the snapshot that a command would read now."""
        found = msgspec.structs.replace(snapshot(), **self.surroundings)
        kinds = {kind: tuple(each for key, each in sorted(self.objects.items()) if key[0] == kind) for kind in KINDS}
        return msgspec.structs.replace(found, **kinds)

    def update(self):
        self.tables.update(now=self.now)  # after any change, as the feed does
        while self.tables.has_work:
            self.tables.update(now=self.now)

    def read_anew(self):
        """Return a cluster that has just read the same objects."""
        found = Cluster()
        found.now, found.surroundings = self.now, self.surroundings
        found._set_surroundings()
        for (kind, _), each in sorted(self.objects.items()):
            found.observe(kind, each)
        found.update()
        return found

    def _set_surroundings(self):
        self.live.set_surroundings(msgspec.structs.replace(snapshot(), **self.surroundings))


def converted(kind, content):
    if kind in {"reservations", "migrations"}:
        return UnstructuredObject(metadata=msgspec.convert(content["metadata"], ObjectMeta), content=content)
    [found] = getattr(msgspec.convert({kind: [content]}, Snapshot), kind)
    return found


def rows_of_commands(taken):
    cluster = ClusterState(taken)
    return {
        "claims": {
            (*row.cells, *row.wide)
            for each in taken.claims
            if (row := claim_row(claims.explain(cluster, each.metadata.key), taken, all_namespaces=True))
        },
        "devices": {(*(row := device_row(each)).cells, *row.wide) for each in devices(cluster)},
        "problems": {audit_command.problem_row(each).cells for each in audit.audit(cluster)},
    }


def rows_of_page(tables):
    widths = {"claims": 10, "devices": 6, "problems": 4}
    return {view: {each[:width] for each in tables.views[view].by_key.values()} for view, width in widths.items()}


def counts_of_overview(tables):
    rows = [cells for cells in tables.views["overview"].by_key.values() if cells[0] in STATE_COLUMNS]
    return {(section, state): int(number) for section, state, number in rows}


def counts_of_rows(cluster):
    """Count states from the rows of a table, from which a browser shows them, and from the objects themselves."""
    views = cluster.tables.views
    phases = {"claims": 7, "reservations": 1, "migrations": 4, "problems": 0}
    counted = Counter((view, each[column]) for view, column in phases.items() for each in views[view].by_key.values())
    counted.update(("nodes", node_state(each)) for (kind, _), each in cluster.objects.items() if kind == "nodes")
    for each in devices(ClusterState(cluster.read())):
        state = device_row(each).cells[4]
        counted["devices", "Used" if state == "Held" and each.consumers else state] += 1
    return counted


@settings(max_examples=120, deadline=None)
@given(changes=st.lists(st.lists(CHANGES, min_size=1, max_size=4), max_size=8))
def test_rows_equal_those_of_the_commands_after_every_change(changes):
    cluster = Cluster()
    for batch in changes:
        for change in batch:
            cluster.change(*change)
        cluster.update()
        assert rows_of_page(cluster.tables) == rows_of_commands(cluster.read())
        read = cluster.read_anew().tables.views
        for view, rows in cluster.tables.views.items():
            assert rows.by_key == read[view].by_key, view
            assert {len(cells) for cells in rows.by_key.values()} <= {len(COLUMNS[view])}, view
        assert counts_of_overview(cluster.tables) == counts_of_rows(cluster)


@given(changes=st.lists(CHANGES, max_size=20))
def test_patches_add_up_to_the_rows(changes):
    cluster, rows = Cluster(), {}
    for change in changes:
        cluster.change(*change)
        for patch in cluster.tables.update(now=NOW):
            rows.setdefault(patch.view, {}).update(patch.changed)
            for key in patch.gone:
                del rows[patch.view][key]
    assert {view: found for view, found in rows.items() if found} == {
        view: each.by_key for view, each in cluster.tables.views.items() if each.by_key
    }


@given(changes=st.lists(CHANGES, max_size=20))
def test_the_overview_counts_the_problems_that_are_listed_in_every_patch(changes):
    cluster, listed, counted = Cluster(), {}, {}
    for change in (*changes, ("time", "", 1)):
        cluster.change(*change)
        while cluster.tables.has_work:
            for patch in cluster.tables.update(now=NOW):
                if patch.view in {"problems", "overview"}:
                    rows = listed if patch.view == "problems" else counted
                    rows.update(patch.changed)
                    for key in patch.gone:
                        del rows[key]
            numbers = {cells[1]: int(cells[2]) for cells in counted.values() if cells[0] == "problems"}
            assert numbers == Counter(cells[0] for cells in listed.values())


@pytest.fixture
def held():
    """A cluster in which claim x holds a device for pod a."""
    cluster = Cluster()
    for change in (
        ("nodes", "n1", 0),
        ("slices", "n1", 0),
        ("claims", "x", 1),
        ("pods", "a", 3),
        ("claims", "z", 0),
        ("pods", "c", 0),
    ):
        cluster.change(*change)
    cluster.update()
    return cluster


def test_a_change_touches_only_the_rows_it_concerns(held):
    held.change("pods", "b", 3)
    patches = {patch.view: set(patch.changed) for patch in held.tables.update(now=NOW)}
    assert patches["claims"] == {"ml/x"}
    assert patches["devices"] == {"gpu.example.com/n1/gpu-0"}
    assert patches["nodes"] == {"n1"}


def test_without_all_claims_no_device_is_called_free(held):
    gaps = (UnreadResource(resource="resourceclaims.resource.k8s.io of other namespaces", why="no permission"),)
    held.live.set_surroundings(msgspec.structs.replace(snapshot(), gaps=gaps))
    held.update()
    states = {key: cells[4] for key, cells in held.tables.views["devices"].by_key.items()}
    assert states == {"gpu.example.com/n1/gpu-0": "Held", "gpu.example.com/n1/gpu-1": "Unknown"}
    assert held.tables.views["nodes"].by_key["n1"][8] == "U?"
    assert "gap/resourceclaims.resource.k8s.io of other namespaces" in held.tables.views["overview"].by_key


def test_the_map_of_a_node_tells_used_from_held_and_free(held):
    assert held.tables.views["nodes"].by_key["n1"][:9] == ("n1", "Ready", "2", "1", "1", "1", "1", "<none>", "UF")
    held.change("pods", "a", None)
    held.update()
    assert held.tables.views["nodes"].by_key["n1"][8] == "HF"


def test_a_large_change_is_worked_off_in_steps(held):
    for name in ("x", "y", "z"):
        held.change("claims", name, 2)
    first = {key for patch in held.tables.update(now=NOW, limit=1) if patch.view == "claims" for key in patch.changed}
    assert len(first) <= 1
    assert held.tables.has_work


def test_only_the_sums_count_as_time_of_the_sums(held, monkeypatch):
    calls = itertools.count()
    monkeypatch.setattr(page_tables, "perf_counter", lambda: float(next(calls)))
    held.change("claims", "z", 1)
    held.update()
    held.tables.mark_sums_due()
    held.update()
    alone = held.tables.sums_seconds
    held.tables.mark_sums_due()
    held.tables.update(now=NOW)
    for _ in range(20):
        held.change("claims", "z", 1)
        held.change("claims", "x", 1)
        held.tables.update(now=NOW, limit=1)
    assert held.tables.is_summing, "rows come first"
    while held.tables.is_summing:
        held.tables.update(now=NOW)
    assert held.tables.sums_seconds == alone


def test_a_node_may_be_deleted_after_pods_were_counted_on_it():
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.change("nodes", name, 0)
    for change in (("slices", "n1", 0), ("claims", "x", 2), ("pods", "a", 8)):
        cluster.change(*change)
    cluster.update()
    cluster.change("nodes", "n1", None)
    cluster.update()
    assert "node_infos" in vars(cluster.live), "pods are counted for a claim that is stuck"
    cluster.change("nodes", "n2", None)
    cluster.live.dirty_claims.add(("ml", "x"))
    cluster.update()
    assert "ml/x" in cluster.tables.views["claims"].by_key


def test_problems_name_objects_in_the_order_of_names_whatever_came_first():
    cluster = Cluster()
    for name in ("c", "b", "a"):
        cluster.change("pods", name, 1)
        cluster.update()
    assert "pod ml/a, pod ml/b, pod ml/c" in str(rows_of_page(cluster.tables)["problems"])
    assert rows_of_page(cluster.tables) == rows_of_commands(cluster.read())


def test_a_round_counts_its_migrations_and_is_gone_with_the_last_of_them():
    cluster = Cluster()
    cluster.change("migrations", "m", 3)
    cluster.change("migrations", "n", 0)
    cluster.update()
    rows = cluster.tables.views["rounds"].by_key
    began = "2026-11-20T11:30:00Z"
    assert rows == {began: (began, "default", "LowNodeLoad", "1", "1", "0", "0", "0", "0")}
    cluster.change("migrations", "m", None)
    cluster.update()
    assert rows == {}


def test_who_waits_for_approval_is_told_with_the_plugin_and_what_to_do():
    cluster = Cluster()
    cluster.change("migrations", "m", 3)
    cluster.update()
    (cells,) = (each for each in cluster.tables.views["problems"].by_key.values() if each[1] == "MigrationNotApproved")
    assert cells[3] == "waits for approval to move pod ml/a, as LowNodeLoad asks: node is overutilized"
    assert "See kubectl dra approve --help" in cells[4]
