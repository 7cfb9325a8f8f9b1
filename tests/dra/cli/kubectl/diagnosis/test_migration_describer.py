"""What `kubectl dra explain` says of a migration, and of a pod that one moves or has moved."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

from dra.cli.kubectl.diagnosis import migration_describer
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat
from dra.engine.diagnosis.snapshot import ControllerLease, ControllerPresence, Snapshot
from dra.model.scheduling import SchedulerPod
from tests.dra.cli.kubectl.migrations.test_migration_list import NOON, job

LEASE = "dra-reserve/dra-reserve-descheduler"
RUNNING = ControllerLease(presence=ControllerPresence.RUNNING, name=LEASE, holder="descheduler-0")
POD = msgspec.convert(
    {"metadata": {"namespace": "shop", "name": "web-1", "uid": "u"}, "spec": {"nodeName": "n1"}}, SchedulerPod
)


def condition(kind, status="True", **more):
    return {"type": kind, "status": status, "lastTransitionTime": "2026-11-24T11:59:30Z", **more}


def passed(found, **spec):
    found.content["metadata"]["annotations"] = {"descheduler.koordinator.sh/passed-arbitration": "true"}
    found.content["spec"] |= {"reservationOptions": {"reservationRef": {"name": "r"}}, **spec}
    return found


def told(found, capsys, *, code=0, descheduler=RUNNING, output=None):
    snapshot = Snapshot(migrations=(found,), pods=(POD,), descheduler=descheduler)
    printed = None
    try:
        migration_describer.print_migration(snapshot, found.metadata.name, output or PrintOptions(), now=NOON)
    except SystemExit as ended:
        printed = ended.code
    assert (printed or 0) == code
    return capsys.readouterr().out


def test_a_wait_says_for_what_since_when_and_who_works_on_it(capsys):
    full = "node n1: 2 pods are migrating away, the limit is 2 (maxMigratingPerNode)"
    wait = condition("PassedArbitration", "False", reason="MaxMigratingPerNode", message=full)
    assert told(job("a", phase="Pending", conditions=[wait]), capsys).splitlines() == [
        "migration a: Pending",
        "  pod       shop/web-1 on node n1",
        f"  step      waits: {full} (since 2026-11-24T11:59:30Z, 30s)",
        "  next      kubectl dra migrations",
        "  process   descheduler-0 is running",
    ]


@pytest.mark.parametrize(
    ("found", "line"),
    [
        pytest.param(
            job("a", conditions=[condition("ReservationScheduled", "False", message="0/2 nodes")]),
            "next      kubectl dra explain reservation r",
            id="no-node",
        ),
        pytest.param(
            job("a", conditions=[condition("Eviction", "False", reason="Evicting", message="429")]),
            "next      kubectl get poddisruptionbudgets -n shop",
            id="evicting",
        ),
        pytest.param(
            job(
                "a",
                conditions=[condition("Eviction"), condition("BoundPodReady", "False")],
                podRef={"namespace": "shop", "name": "web-2"},
            ),
            "next      kubectl describe pod web-2 -n shop",
            id="not-ready",
        ),
    ],
)
def test_each_step_names_the_command_that_shows_more(found, line, capsys):
    assert f"  {line}" in told(passed(found), capsys).splitlines()


def test_a_failure_is_an_exit_code_and_the_next_try_is_a_dry_run(capsys):
    shown = told(job("a", phase="Failed", reason="Unschedulable", message="0/2 nodes"), capsys, code=1)
    assert "  step      failed Unschedulable: 0/2 nodes" in shown
    assert "  next      kubectl dra migrate pod/web-1 -n shop --dry-run" in shown


def test_a_failure_after_the_eviction_points_to_the_replacement(capsys):
    evicted = [condition("Eviction")]
    shown = told(job("a", phase="Failed", reason="Timeout", conditions=evicted), capsys, code=1)
    assert "  do        the pod is evicted: look after its replacement with kubectl get pods -n shop" in shown


def test_without_a_descheduler_the_problem_takes_the_place_of_the_next_command(capsys):
    absent = ControllerLease(presence=ControllerPresence.ABSENT, name=LEASE)
    shown = told(job("a", phase="Pending"), capsys, code=1, descheduler=absent)
    assert "warning   NobodyMigrates: podmigrationjob a: is to migrate pod shop/web-1" in shown.lower().replace(
        "nobodymigrates", "NobodyMigrates"
    )
    assert "  do        start the descheduler; to look for it: kubectl get pods -n dra-reserve" in shown
    assert f"  process   no lease {LEASE}: no descheduler is running" in shown


def test_as_data_it_has_the_facts_and_the_texts(capsys):
    shown = json.loads(told(job("a"), capsys, output=PrintOptions(format=OutputFormat.JSON)))
    assert (shown["kind"], shown["pod"], shown["step"]) == ("PodMigrationJob", "shop/web-1", "waiting")
    assert shown["next"] == "kubectl dra migrations"


@pytest.mark.parametrize(
    ("found", "name", "text"),
    [
        pytest.param((job("moving"),), "movin", "migration movin: not found. Did you mean moving?", id="typo"),
        pytest.param(None, "a", "does not serve PodMigrationJobs", id="not-installed"),
    ],
)
def test_what_is_not_there_is_an_error(found, name, text):
    with pytest.raises(FailedError, match=text):
        migration_describer.print_migration(Snapshot(migrations=found), name, PrintOptions(), now=NOON)


def test_a_job_that_cannot_be_read_is_an_error_that_names_the_field(capsys):
    wrong = job("a")
    wrong.content["spec"]["podReff"] = {}
    with pytest.raises(FailedError, match=r"podReff.*Correct it: kubectl edit podmigrationjob a"):
        told(wrong, capsys)


def test_a_pod_names_its_open_job_and_the_job_that_made_it():
    old = job("old", phase="Succeeded", nodeName="n1", podRef={"namespace": "shop", "name": "web-1"})
    old.content["spec"]["podRef"]["name"] = "web-0"
    snapshot = Snapshot(migrations=(old, job("open")), pods=(POD,))
    lines, content = migration_describer.describe_pod_migrations(
        snapshot, ("shop", "web-1"), "u", now=datetime(2026, 11, 24, 13, tzinfo=UTC)
    )
    assert lines == [
        "  migration open: waits for the descheduler to begin",
        "  next      kubectl dra explain migration open",
        "  moved     by migration old, 62m ago: it replaces pod shop/web-0",
    ]
    assert [each["name"] for each in content["migrations"]] == ["open", "old"]
    assert migration_describer.describe_pod_migrations(snapshot, ("shop", "web-9"), "x", now=NOON) == ([], {})
