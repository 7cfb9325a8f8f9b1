"""The table of PodMigrationJobs."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from dra.cli.kubectl.migrations.migration_list import _build_table, idle_warning
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.resource_table import SELECT_ALL
from dra.cli.kubectl.snapshots.watch_printer import WatchPrinter
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence, Snapshot
from dra.model.meta import ObjectMeta, UnstructuredObject

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
NODES = {("shop", "web-1"): "n1"}


def job(name, version="1", *, phase="Running", created="2026-11-24T11:58:00Z", **status):
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": version, "creationTimestamp": created}
    spec = {"podRef": {"namespace": "shop", "name": "web-1"}, "mode": "ReservationFirst", "ttl": "5m0s"}
    content = {"metadata": metadata, "spec": spec, "status": {"phase": phase, **status}}
    return UnstructuredObject(metadata=msgspec.convert(metadata, ObjectMeta), content=content)


def rows(*found, name=None):
    return [each.cells for each in _build_table(found, name=name, selectors=SELECT_ALL, now=NOON, nodes=NODES).rows]


def test_the_oldest_job_comes_first_with_its_pod_nodes_and_step():
    evicted = {"nodeName": "n2", "conditions": [{"type": "Eviction", "status": "True"}]}
    assert rows(job("late", created="2026-11-24T11:59:00Z", phase=""), job("early", **evicted)) == [
        (
            "early",
            "shop/web-1",
            "<none>",
            "n2",
            "Running",
            "2m",
            "waits for the replacement pod to use the room on node n2",
        ),
        ("late", "shop/web-1", "n1", "<none>", "Pending", "60s", "waits for the descheduler to begin"),
    ]


def test_one_job_can_be_named():
    assert [cells[0] for cells in rows(job("a"), job("b"), name="b")] == ["b"]


def test_a_job_that_cannot_be_read_shows_the_field():
    wrong = job("a")
    wrong.content["spec"]["podReff"] = {}
    ((name, *_, phase, _, error),) = rows(wrong)
    assert (name, phase) == ("a", "Unreadable")
    assert "podReff" in error


def test_time_that_passes_is_no_change_for_a_watch(capsys):
    printer, known = WatchPrinter(PrintOptions()), {}
    for minutes, found in enumerate(([job("a")], [job("a")], [job("a", "2", phase="Failed", reason="Timeout")])):
        now = NOON + timedelta(minutes=minutes)
        printer.print_changes(_build_table(found, name=None, selectors=SELECT_ALL, now=now, cached_rows=known))
    assert [line.split()[4] for line in capsys.readouterr().out.splitlines()] == ["PHASE", "Running", "Failed"]


@pytest.mark.parametrize(
    ("found", "presence", "warned"),
    [
        pytest.param(job("a"), ControllerPresence.ABSENT, True, id="no-lease"),
        pytest.param(job("a"), ControllerPresence.STALE, True, id="expired"),
        pytest.param(job("a"), ControllerPresence.RUNNING, False, id="it-runs"),
        pytest.param(job("a"), ControllerPresence.UNKNOWN, False, id="not-known"),
        pytest.param(job("a", phase="Succeeded"), ControllerPresence.ABSENT, False, id="nothing-waits"),
    ],
)
def test_a_list_of_jobs_that_nobody_works_on_warns(found, presence, warned):
    lease = ControllerLease(presence=presence, name="dra-reserve/dra-reserve-descheduler")
    assert bool(idle_warning(Snapshot(migrations=(found,), descheduler=lease))) is warned
