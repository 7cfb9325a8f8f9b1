"""The rows of the page are those of the commands, whatever changed in which order."""

import itertools
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra.cli.kubectl.diagnosis import audit as audit_command
from dra.cli.kubectl.diagnosis.get import claim_row, device_row
from dra.cli.kubectl.page.page_tables import PageTables
from dra.engine.claims.view import WorkloadPhase
from dra.engine.diagnosis import audit, claims
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.devices import devices
from dra.engine.diagnosis.live_cluster import LiveCluster
from dra.engine.diagnosis.snapshot import Snapshot, UnreadResource
from dra.model.templates import ResourceClaimTemplate
from tests.dra.engine.diagnosis.cluster_states import JOB, NOBODY, claim, entry, node, offer, pod, snapshot, workload

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

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
)
NODE_VARIANTS = (
    node,
    lambda name: node(name, ready=False),
    lambda name: node(name, cordoned=True),
)
SLICE_VARIANTS = (offer, lambda name: offer(name, devices=1), lambda name: offer(name, devices=3))

TEMPLATE = {"metadata": {"name": "one-gpu", "namespace": "ml"}}
SURROUNDINGS = {
    "workloads": tuple(
        (workload(phase),) for phase in (WorkloadPhase.PRESENT, WorkloadPhase.FINISHED, WorkloadPhase.ABSENT)
    ),
    "templates": ((), msgspec.convert((TEMPLATE,), tuple[ResourceClaimTemplate, ...])),
    "enabled_namespaces": ({}, {"ml": False}, {"ml": True}),
}
"""Field of a snapshot → its values."""

KINDS = {
    "claims": (("x", "y", "z"), CLAIM_VARIANTS),
    "pods": (("a", "b", "c"), POD_VARIANTS),
    "nodes": (("n1", "n2"), NODE_VARIANTS),
    "slices": (("n1", "n2"), SLICE_VARIANTS),
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
)


class Cluster:
    """A small cluster that changes: its objects, a live view of it, and what a command would read."""

    def __init__(self):
        self.live = LiveCluster()
        self.tables = PageTables(self.live)
        self.objects = {}
        self.surroundings = {kind: variants[0] for kind, variants in SURROUNDINGS.items()}
        self._versions = itertools.count(1)
        self._set_surroundings()

    def change(self, kind, name, variant):
        if kind in SURROUNDINGS:
            self.surroundings[kind] = SURROUNDINGS[kind][variant]
            self._set_surroundings()
            return
        known = self.objects.pop((kind, name), None)
        forget = {
            "claims": self.live.forget_claim,
            "pods": self.live.forget_pod,
            "nodes": self.live.forget_node,
            "slices": self.live.forget_slice,
        }[kind]
        observe = {
            "claims": self.live.observe_claim,
            "pods": self.live.observe_pod,
            "nodes": self.live.observe_node,
            "slices": self.live.observe_slice,
        }[kind]
        if variant is None:
            if known is not None:
                forget(known)
            return
        content = KINDS[kind][1][variant](name)
        content["metadata"]["resourceVersion"] = str(next(self._versions))
        uid = known.metadata.uid if known is not None else f"uid-{name}-{next(self._versions)}"
        if kind == "claims":
            content["metadata"]["uid"] = uid
        [found] = getattr(msgspec.convert({kind: [content]}, Snapshot), kind)
        self.objects[kind, name] = found
        observe(found)

    def read(self):
        """Return the snapshot that a command would read now."""
        found = msgspec.structs.replace(snapshot(leader=NOBODY), **self.surroundings)
        kinds = {
            kind: tuple(each for key, each in sorted(self.objects.items()) if key[0] == kind)
            for kind in ("claims", "pods", "nodes", "slices")
        }
        return msgspec.structs.replace(found, **kinds)

    def update(self):
        while self.tables.has_work:
            self.tables.update(now=NOW)

    def _set_surroundings(self):
        self.live.set_surroundings(msgspec.structs.replace(snapshot(leader=NOBODY), **self.surroundings))


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


@settings(max_examples=120, deadline=None)
@given(changes=st.lists(st.lists(CHANGES, min_size=1, max_size=4), max_size=8))
def test_rows_equal_those_of_the_commands_after_every_change(changes):
    cluster = Cluster()
    for batch in changes:
        for change in batch:
            cluster.change(*change)
        cluster.update()
        assert rows_of_page(cluster.tables) == rows_of_commands(cluster.read())


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
    assert held.tables.views["nodes"].by_key["n1"][-1] == "U?"
    assert "gap/resourceclaims.resource.k8s.io of other namespaces" in held.tables.views["overview"].by_key


def test_the_map_of_a_node_tells_used_from_held_and_free(held):
    assert held.tables.views["nodes"].by_key["n1"] == ("n1", "Ready", "2", "1", "1", "1", "1", "<none>", "UF")
    held.change("pods", "a", None)
    held.update()
    assert held.tables.views["nodes"].by_key["n1"][-1] == "HF"


def test_a_large_change_is_worked_off_in_steps(held):
    for name in ("x", "y", "z"):
        held.change("claims", name, 2)
    first = {key for patch in held.tables.update(now=NOW, limit=1) if patch.view == "claims" for key in patch.changed}
    assert len(first) <= 1
    assert held.tables.has_work
