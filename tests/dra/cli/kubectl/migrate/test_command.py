"""What `kubectl dra migrate` creates, follows and says."""

import asyncio

import pytest
from click.testing import CliRunner

from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.main import main
from dra.cli.kubectl.migrate.command import migrate_pods, requested_options
from dra.cli.kubectl.migrate.pod_choice import MigrateOptions
from dra.cli.kubectl.migrate.preview import preview_migrations
from dra.cli.kubectl.migrations import migration_requests
from dra.cli.kubectl.migrations.migration_requests import MigrationRequest
from dra.kube.errors import Forbidden, Status, Unreachable

SUCCEEDED = {
    "phase": "Succeeded",
    "status": "Complete",
    "nodeName": "n2",
    "podRef": {"namespace": "default", "name": "web-b"},
}


def options(kind="pod", name="web-a", **more):
    return MigrateOptions(
        kind=kind,
        name=name,
        namespace="default" if kind == "pod" else "",
        request=MigrationRequest(mode=more.pop("mode", ""), ttl=more.pop("ttl", "")),
        **more,
    )


async def started(site, wanted):
    """Start the command, wait until it has created jobs; return the task, the printed lines and the jobs."""
    lines = []
    task = asyncio.create_task(migrate_pods(site.connection(), wanted, report=lines.append))
    await asyncio.sleep(0.1)  # virtual time passes only when the command has nothing left to do
    return task, lines


async def test_the_job_names_the_pod_with_its_uid_and_its_steps_are_printed(site):
    pod = await site.add_pod("web-a")
    task, lines = await started(site, options(ttl="10m", mode="ReservationFirst"))
    ((name, job),) = (await site.jobs()).items()
    uid = pod["metadata"]["uid"]
    assert name == f"web-a-{uid[:8]}"
    reference = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web-a", "uid": uid}
    assert job["spec"] == {"podRef": reference, "mode": "ReservationFirst", "ttl": "10m"}
    await asyncio.sleep(2.5)
    wait = {"type": "PassedArbitration", "status": "False", "reason": "MaxMigratingPerNode", "message": "node n1: full"}
    await site.set_status(name, conditions=[wait])
    await asyncio.sleep(2.5)
    await site.set_status(name, **SUCCEEDED)
    assert await task is True
    assert lines == [
        f"podmigrationjob.scheduling.koordinator.sh/{name} created",
        "pod default/web-a: waits for the descheduler to begin",
        "pod default/web-a: waits: node n1: full",
        "pod default/web-a: moved to node n2, as pod default/web-b",
    ]


async def test_a_second_command_follows_the_job_that_runs_and_one_after_a_failure_creates_the_next(site):
    await site.add_pod("web-a")
    assert await migrate_pods(site.connection(), options(wait=False), report=print)
    lines = []
    await migrate_pods(site.connection(), options(wait=False), report=lines.append)
    (name,) = await site.jobs()
    assert lines == [f"podmigrationjob.scheduling.koordinator.sh/{name} exists: followed"]
    await site.set_status(name, phase="Failed", reason="Timeout")
    assert await migrate_pods(site.connection(), options(wait=False), report=print)
    assert sorted(await site.jobs()) == [name, f"{name}-2"]


async def test_a_failed_job_is_a_failed_command_that_names_the_next_one(site, capsys):
    await site.add_pod("web-a")
    task, lines = await started(site, options())
    (name,) = await site.jobs()
    await site.set_status(name, phase="Failed", reason="Unschedulable", message="0/2 nodes are available")
    assert await task is False
    assert lines[-1] == "pod default/web-a: failed Unschedulable: 0/2 nodes are available"
    assert f"migration {name} failed. See: kubectl dra explain migration {name}" in capsys.readouterr().err


async def test_a_job_that_is_deleted_while_it_is_followed_counts_as_failed(site):
    await site.add_pod("web-a")
    task, lines = await started(site, options())
    (name,) = await site.jobs()
    await site.request("DELETE", f"/apis/scheduling.koordinator.sh/v1alpha1/podmigrationjobs/{name}")
    assert await task is False
    assert lines[-1] == f"pod default/web-a: job {name} was deleted, or cannot be read"


async def test_an_api_server_that_does_not_answer_for_a_while_ends_nothing(site, monkeypatch):
    await site.add_pod("web-a")
    task, lines = await started(site, options())
    (name,) = await site.jobs()
    read = migration_requests.read_jobs

    async def fails(_):
        raise Unreachable("podmigrationjobs", "connection refused", outcome_unknown=False)

    monkeypatch.setattr(migration_requests, "read_jobs", fails)
    await asyncio.sleep(5)
    monkeypatch.setattr(migration_requests, "read_jobs", read)
    await site.set_status(name, **SUCCEEDED)
    assert await task is True
    assert sum(line.startswith("the jobs cannot be read, trying again") for line in lines) == 1


async def test_a_pod_whose_job_is_forbidden_does_not_keep_back_the_others(site, capsys, monkeypatch):
    await site.add_pod("web-a")
    await site.add_pod("web-b")
    request = migration_requests.request_migration

    async def guarded(client, pod, *rest, **more):
        if pod.metadata.name == "web-a":
            raise Forbidden("PodMigrationJob web-a", Status(code=403, message="no right to evict it"))
        return await request(client, pod, *rest, **more)

    monkeypatch.setattr(migration_requests, "request_migration", guarded)
    assert not await migrate_pods(site.connection(), options("node", "n1", wait=False), report=print)
    assert [name.rpartition("-")[0] for name in await site.jobs()] == ["web-b"]
    assert "pod default/web-a: no job created: " in capsys.readouterr().err


async def test_after_the_timeout_the_jobs_stay_and_the_command_fails(site, capsys):
    await site.add_pod("web-a")
    before = site.clock.now()
    assert not await migrate_pods(site.connection(), options(timeout_seconds=30.0), report=print)
    assert site.clock.now() - before == pytest.approx(30.0, abs=1.0)
    assert len(await site.jobs()) == 1
    assert "not ended within 30 s, and going on: web-a-" in capsys.readouterr().err


async def test_an_interrupted_command_leaves_the_jobs_and_says_how_to_go_on(site, capsys):
    await site.add_pod("web-a")
    task, _ = await started(site, options())
    await asyncio.sleep(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (name,) = await site.jobs()
    said = capsys.readouterr().err
    assert f"The migrations go on. To see them: kubectl dra migrations {name}" in said
    assert f"kubectl delete podmigrationjobs {name}" in said


async def test_a_job_whose_pod_is_evicted_is_not_among_those_to_stop(site, capsys):
    await site.add_pod("web-a")
    await site.add_pod("web-b")
    task, _ = await started(site, options("node", "n1"))
    first, second = sorted(await site.jobs())
    await site.set_status(first, phase="Running", conditions=[{"type": "Eviction", "status": "True"}])
    await asyncio.sleep(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert f"kubectl delete podmigrationjobs {second}\n" in capsys.readouterr().err


async def test_without_a_descheduler_the_wait_is_explained(site, capsys):
    await site.add_pod("web-a")
    await migrate_pods(site.connection(), options(wait=False), report=print)
    assert "No descheduler is known to run (lease dra-reserve/dra-reserve-descheduler)" in capsys.readouterr().err


STAYING = [
    pytest.param({"owner": "DaemonSet"}, "belongs to a DaemonSet", id="daemon-set"),
    pytest.param(
        {"owner": "Node", "annotations": {"kubernetes.io/config.mirror": "x"}}, "is a static pod", id="mirror"
    ),
    pytest.param({"owner": ""}, "has no controller", id="bare"),
]


@pytest.mark.parametrize(("given", "reason"), STAYING)
async def test_a_pod_that_no_migration_can_move_is_refused_with_the_reason(site, capsys, given, reason):
    await site.add_pod("web-a", **given)
    assert not await migrate_pods(site.connection(), options(), report=print)
    assert f"pod default/web-a stays: it {reason}" in capsys.readouterr().err
    assert await site.jobs() == {}


async def test_of_a_node_all_pods_that_can_move_get_jobs_and_the_others_are_named(site, capsys):
    await site.add_pod("web-a")
    await site.add_pod("web-b")
    await site.add_pod("daemon", owner="DaemonSet")
    await site.add_pod("elsewhere", node="n2")
    lines = []
    assert await migrate_pods(site.connection(), options("node", "n1", wait=False), report=lines.append)
    assert sorted(line.partition("/")[2].rpartition("-")[0] for line in lines) == ["web-a", "web-b"]
    said = capsys.readouterr().err
    assert "pod default/daemon stays: it belongs to a DaemonSet" in said
    assert "node n1 is schedulable: none of these pods returns to it" in said
    assert not (await site.request("GET", "/api/v1/nodes/n1"))["spec"].get("unschedulable")


async def test_of_a_node_only_bound_pods_without_a_claim_for_cpus_get_jobs_if_asked(site):
    lsr = {"labels": {"koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-prod"}}
    await site.add_pod("bound", **lsr)
    await site.add_pod("malformed", **lsr, annotations={"scheduling.koordinator.sh/resource-spec": "[]"})
    await site.add_pod("own", **lsr, annotations={"reserve.dra/cpus": "own"})
    await site.add_pod("shared")
    wanted, lines = options("node", "n1", wait=False, without_cpus=True), []
    assert await migrate_pods(site.connection(), wanted, report=lines.append)
    assert lines == ["node n1: no pods to migrate"], "the replacement of no pod would get a claim"
    label = {"metadata": {"name": "default", "labels": {"reserve.dra/koordinator": "enabled"}}}
    await site.request("PATCH", "/api/v1/namespaces/default", label)
    assert await migrate_pods(site.connection(), wanted, report=print)
    assert [job["spec"]["podRef"]["name"] for job in (await site.jobs()).values()] == ["bound"]


async def test_only_with_cordon_the_node_is_marked_and_it_stays_so(site, capsys):
    await site.add_pod("web-a")
    lines = []
    wanted = options("node", "n1", wait=False, cordon=True)
    assert await migrate_pods(site.connection(), wanted, report=lines.append)
    assert lines[0] == "node/n1 cordoned"
    assert (await site.request("GET", "/api/v1/nodes/n1"))["spec"]["unschedulable"] is True
    assert await migrate_pods(site.connection(), wanted, report=lines.append)
    assert lines.count("node/n1 cordoned") == 1
    assert "is schedulable" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "given", "ttl"), [("pod", "", ""), ("node", "", "1h"), ("pod", "2m", "2m"), ("node", "0s", "0s")]
)
def test_jobs_of_a_node_live_long_enough_to_wait_for_one_another(kind, given, ttl):
    assert requested_options(kind, mode="", ttl=given) == MigrationRequest(ttl=ttl)


@pytest.mark.parametrize(
    ("cpu", "mode", "wanted"),
    [
        pytest.param("", "", "EvictDirectly", id="requests-nothing"),
        pytest.param("", "ReservationFirst", "ReservationFirst", id="a-given-mode-counts"),
        pytest.param("1", "", None, id="requests-something"),
    ],
)
async def test_for_a_pod_that_requests_nothing_no_room_is_held(site, cpu, mode, wanted):
    await site.add_pod("web-a", cpu=cpu)
    assert await migrate_pods(site.connection(), options(mode=mode, wait=False), report=print)
    (job,) = (await site.jobs()).values()
    assert job["spec"].get("mode") == wanted


async def test_an_empty_node_is_no_failure(site):
    lines = []
    assert await migrate_pods(site.connection(), options("node", "n2"), report=lines.append)
    assert lines == ["node n2: no pods to migrate"]


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        pytest.param(options(name="nope"), "pod default/nope: not found. See: kubectl get pods -n default", id="pod"),
        pytest.param(options("node", "n9"), "node n9: not found. See: kubectl get nodes", id="node"),
    ],
)
async def test_what_does_not_exist_is_an_error(site, wanted, text):
    with pytest.raises(FailedError, match=text):
        await migrate_pods(site.connection(), wanted, report=print)


async def test_without_the_kind_the_command_says_what_to_install(site):
    await site.request(
        "DELETE",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podmigrationjobs.scheduling.koordinator.sh",
    )
    with pytest.raises(FailedError, match="does not serve PodMigrationJobs"):
        await migrate_pods(site.connection(), options(), report=print)


async def test_a_dry_run_creates_nothing_and_shows_where_each_pod_would_be(site, capsys):
    await site.add_pod("web-a", scheduler="default-scheduler")
    await site.add_pod("web-b", scheduler="mine")
    await site.add_pod("daemon", owner="DaemonSet")
    for name in ("web-a", "web-b", "daemon"):
        await site.set_ready(name)
    assert not await preview_migrations(site.connection(), options("node", "n1", cordon=True))
    assert await site.jobs() == {}
    assert not (await site.request("GET", "/api/v1/nodes/n1"))["spec"].get("unschedulable")
    told = capsys.readouterr()
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in told.out.splitlines()}
    assert lines["default/web-a"] == "n2 moves from node n1"
    assert lines["default/web-b"].startswith("<none> refused: pod default/web-b: scheduler mine places no Reservations")
    assert lines["default/daemon"].startswith("<none> stays: it belongs to a DaemonSet")
    assert "node n1 would be marked unschedulable first" in told.err


async def test_a_dry_run_names_a_budget_that_allows_nothing_now(site, capsys):
    await site.add_pod("web-a", labels={"app": "web"})
    budget = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}}
    await site.request("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    await site.set_ready("web-a")
    assert await preview_migrations(site.connection(), options())
    told = " ".join(capsys.readouterr().out.split())
    assert "moves from node n1; waits first: poddisruptionbudget default/web: " in told


async def test_a_dry_run_names_the_limit_that_a_job_would_wait_for(site, capsys):
    for name in ("web-a", "web-b", "web-c"):
        await site.add_pod(name)
        await site.set_ready(name)
    assert await preview_migrations(site.connection(), options("node", "n1"))
    told = capsys.readouterr()
    waiting = (
        "waits first: ReplicaSet default/web: 1 pod is migrating, the limit is 1, since its replicas are unknown "
        "(maxMigratingPerWorkload)"
    )
    assert [line.endswith(waiting) for line in told.out.splitlines()[1:]] == [False, True, True]
    assert "limits and rules are the defaults of the descheduler's configuration" in told.err


async def test_a_dry_run_has_the_limits_of_a_given_configuration(site, capsys, tmp_path):
    for name in ("web-a", "web-b", "web-c"):
        await site.add_pod(name)
        await site.set_ready(name)
    path = tmp_path / "config.yaml"
    gates = ["MaxMigratingPerWorkload", "MaxUnavailablePerWorkload"]
    limits = f"maxMigratingPerNode: 2, objectLimiters: {{workload: {{duration: 0s}}}}, skipEvictionGates: {gates}"
    path.write_text(f"migration: {{{limits}}}")
    assert await preview_migrations(site.connection(), options("node", "n1", configuration_path=path))
    told = capsys.readouterr()
    waiting = "waits first: node n1: 2 pods are migrating away, the limit is 2 (maxMigratingPerNode)"
    assert [line.endswith(waiting) for line in told.out.splitlines()[1:]] == [False, False, True]
    assert f"limits and rules are those of {path}" in told.err


async def test_a_dry_run_counts_the_replicas_that_the_workload_wants(site, capsys):
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    made = await site.request(
        "POST", "/apis/apps/v1/namespaces/default/replicasets", {"metadata": {"name": "web"}, "spec": spec}
    )
    for name in ("web-a", "web-b"):  # of two replicas, one could be away at a time
        await site.add_pod(name, uid=made["metadata"]["uid"])
        await site.set_ready(name)
    assert await preview_migrations(site.connection(), options("node", "n1"))
    told = capsys.readouterr().out
    assert (told.count("moves from node n1"), told.count("waits first")) == (2, 0)


def test_a_configuration_without_a_dry_run_is_a_usage_error(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("")
    refused = CliRunner().invoke(main, ["migrate", "pod/web-a", f"--config={path}"])
    assert refused.exit_code == 2
    assert "--config requires --dry-run" in refused.output


async def test_a_dry_run_has_the_schedulers_of_a_given_configuration(site, capsys, tmp_path):
    await site.add_pod("web-a", scheduler="mine")
    path = tmp_path / "config.yaml"
    path.write_text("migration: {schedulerNames: [mine]}")
    assert await preview_migrations(site.connection(), options(configuration_path=path))
    assert "moves from node n1" in capsys.readouterr().out


async def test_a_dry_run_names_the_rule_that_forbids_the_eviction(site, capsys):
    await site.add_pod("web-a", annotations={"scheduling.koordinator.sh/eviction-cost": "2147483647"})
    assert not await preview_migrations(site.connection(), options())
    told = capsys.readouterr().out
    assert "refused: pod default/web-a: scheduling.koordinator.sh/eviction-cost is" in " ".join(told.split())


async def test_a_dry_run_names_the_job_that_runs_already(site, capsys):
    await site.add_pod("web-a")
    assert await migrate_pods(site.connection(), options(wait=False), report=print)
    (name,) = await site.jobs()
    capsys.readouterr()
    assert await preview_migrations(site.connection(), options())
    assert f"migrates already: job {name}" in capsys.readouterr().out
