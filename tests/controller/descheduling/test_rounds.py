import asyncio
import contextlib
from dataclasses import dataclass, field

import pytest

from controller.descheduling import rounds
from controller.descheduling.application import Profiles
from controller.descheduling.informers import DeschedulingInformers
from controller.descheduling.user_plugins import UserPlugins
from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.api.descheduler.plugin_args import PluginArgs
from dra.engine.descheduling.cache import cluster_objects
from dra.engine.descheduling.plugin import Evict
from dra.engine.descheduling.round import Limits, Profile
from dra.kube.resources import PODS as POD_RESOURCE
from dra.kube.transport import Response
from dra.model.meta import UnstructuredObject
from tests.controller.migration.site import JOBS, PODS, Site, refusal

INTERVAL = 300.0
NODES = "/api/v1/nodes"


class Named:
    """A plugin that wants pods with certain names to move."""

    name = "Named"
    Args = PluginArgs

    def __init__(self, *names, receivers=None, needs_place=True):
        self.names, self.receivers, self.needs_place, self.rounds = names, receivers, needs_place, []

    def deschedule(self, snapshot, args):
        del args
        pods = {pod.metadata.name: pod for pod in snapshot.pods()}
        self.rounds.append(sorted(pods))
        for name in self.names:
            if name in pods:
                yield Evict(pods[name], f"{name} has to go", receivers=self.receivers, needs_place=self.needs_place)


@dataclass
class Configured:
    """A configuration with one profile."""

    plugin: Named
    interval: float = INTERVAL
    dry_run: bool = False
    limits: Limits = field(default_factory=Limits)
    evictor: str = "MigrationController"
    args: dict = field(default_factory=dict)

    warnings = ()

    @property
    def migration(self):
        return MigrationControllerArgs.model_validate({"skipCheckExpectedReplicas": True, **self.args})

    @property
    def profiles(self):
        return (Profile(name="p", deschedule=((self.plugin, PluginArgs()),), evictor=self.evictor),)

    def profiles_on(self, nodes):
        del nodes
        return self.profiles


class Descheduled(Site):
    """A site whose descheduler has profiles."""

    def __init__(self, plugin, *, plugins=None, **given):
        self.plugins = plugins or UserPlugins()
        self.configured = Configured(plugin, **given)
        super().__init__(**self.configured.args)

    def make_informers(self):
        return DeschedulingInformers(self.client, clock=self.clock)

    async def __aenter__(self):
        await super().__aenter__()
        self.profiles = Profiles(
            self.runtime,
            self.informers,
            descheduling=self.configured,
            plugins=self.plugins,
            jobs=self.cache,
            evictor=self.evictor,
        )
        self.arbitration.node_fit = self.profiles.rounds
        for name in ("n1", "n2", "n3"):
            await self.node(name)
        return self

    async def node(self, name, **spec):
        labels = {"kubernetes.io/hostname": name}
        await self.ask("POST", NODES, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        allocatable = {"cpu": "8", "memory": "16Gi", "pods": "100"}
        status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
        await self.ask("PATCH", f"{NODES}/{name}/status", {"status": status})
        await self.ask("PATCH", f"{NODES}/{name}", {"spec": {"taints": None}})  # as the controller of nodes does

    async def run(self):
        await super().run()
        self._tasks.append(asyncio.ensure_future(self.profiles.run()))
        await asyncio.sleep(1.0)

    async def jobs(self):
        return (await self.ask("GET", JOBS))["items"]

    def writes(self):
        return [line for line, _ in self.requests if not line.startswith("GET ")]

    def metric(self, name, **labels):
        return self.metrics.registry.get_sample_value(name, labels)


async def test_a_round_makes_a_job_that_reserves_first():
    async with Descheduled(Named("web-0", receivers=frozenset({"n3"}))) as site:
        await site.workload()
        await site.run()
        (made,) = await site.jobs()
        annotations = made["metadata"]["annotations"]
        assert annotations["koordinator.sh/evict-reason"] == "web-0 has to go"
        assert (made["spec"]["podRef"]["name"], made["spec"]["mode"]) == ("web-0", "ReservationFirst")
        (reservation,) = (await site.ask("GET", "/apis/scheduling.koordinator.sh/v1alpha1/reservations"))["items"]
        template = reservation["spec"]["template"]["spec"]
        assert template["containers"]
        (term,) = template["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert [(each["operator"], each["values"]) for each in term["matchFields"]] == [
            ("In", ["n3"]),
            ("NotIn", ["n1"]),
        ]


async def test_a_pod_in_flight_is_no_candidate_of_the_next_round():
    plugin = Named("web-0")
    async with Descheduled(plugin) as site:
        await site.workload()
        await site.run()
        await site.node("n4")
        await asyncio.sleep(10.0)
        assert plugin.rounds == [["web-0", "web-1", "web-2"], ["web-1", "web-2"]]
        assert len(await site.jobs()) == 1


async def test_a_node_that_gives_pods_by_now_receives_none():
    """Receivers are fixed when the job is made: until the eviction one of these may have become hot."""
    plugin = Named("web-0", receivers=frozenset({"n2"}))
    async with Descheduled(plugin) as site:
        await site.workload()
        await site.pod("hot", nodeName="n2")
        await site.run()
        (made,) = await site.jobs()
        plugin.names, plugin.receivers = ("hot",), frozenset({"n3"})
        await site.node("n4")
        await asyncio.sleep(10.0)
        await site.place(made["metadata"]["uid"], node="n2")
        await asyncio.sleep(5.0)
        status = await site.status(made["metadata"]["name"])
        assert (status["phase"], status["message"]) == (
            "Failed",
            "node n2: gives pods itself by now (plugin Named), so it receives none",
        )
        assert site.lines("web-0/eviction") == []


async def test_a_job_whose_pod_fits_on_no_other_node_is_refused_at_once_with_node_fit():
    async with Descheduled(Named(), args={"nodeFit": True}) as site:
        await site.workload()
        for name in ("n2", "n3"):
            await site.ask("PATCH", f"{NODES}/{name}", {"spec": {"unschedulable": True}})
        await site.run()
        await site.job("m", "web-0")
        await asyncio.sleep(5.0)
        status = await site.status("m")
        assert (status["phase"], status["reason"]) == ("Failed", "ForbiddenMigratePod")
        assert status["message"] == "pod ns/web-0: fits on no other node (nodeFit)"


async def test_rounds_come_at_the_interval():
    plugin = Named()
    async with Descheduled(plugin) as site:
        await site.run()
        await asyncio.sleep(2 * INTERVAL + 1.0)
        assert len(plugin.rounds) == 3


async def test_an_interval_of_zero_is_one_round():
    plugin = Named()
    async with Descheduled(plugin, interval=0.0) as site:
        await site.run()
        await asyncio.sleep(10 * INTERVAL)
        await site.node("n4")
        await asyncio.sleep(INTERVAL)
        assert len(plugin.rounds) == 1


async def test_events_start_rounds_that_are_seconds_apart():
    plugin = Named()
    async with Descheduled(plugin) as site:
        await site.run()
        for number in range(4, 9):
            await site.node(f"n{number}")
        await asyncio.sleep(60.0)
        assert len(plugin.rounds) <= 3


async def test_a_dry_run_decides_the_same_and_writes_nothing(caplog):
    caplog.set_level("INFO")
    async with Descheduled(Named("web-0"), dry_run=True) as site:
        await site.workload()
        await site.run()
        assert site.writes() == []
        assert site.recorded.events == []
        assert site.metric("dra_reserve_descheduler_candidates_total", plugin="Named", outcome="Accepted") == 1
        assert "dry run: pod ns/web-0: leaves node n1 to node n2: web-0 has to go" in caplog.text


async def test_the_default_evictor_evicts_and_tells_the_pod():
    async with Descheduled(Named("web-0"), evictor="DefaultEvictor") as site:
        await site.workload()
        await site.run()
        assert site.lines("/eviction") == [f"POST {PODS}/web-0/eviction"]
        assert await site.jobs() == []
        assert site.recorded.events == [("Descheduled", 'Pod evicted from node "n1" by the reason "web-0 has to go"')]


async def test_a_pod_that_has_ended_is_evicted_at_once():
    async with Descheduled(Named("web-0", needs_place=False)) as site:
        await site.workload()
        await site.ask("PATCH", f"{PODS}/web-0/status", {"status": {"phase": "Failed"}})
        await site.run()
        assert site.lines("/eviction") == [f"POST {PODS}/web-0/eviction"]
        assert await site.jobs() == []


@pytest.mark.parametrize(
    "args", [pytest.param({"approval": "Required"}, id="approval"), pytest.param({"dryRun": True}, id="dry-run")]
)
async def test_a_pod_that_has_ended_waits_for_what_all_migrations_wait_for(args):
    async with Descheduled(Named("web-0", needs_place=False), args=args) as site:
        await site.workload()
        await site.ask("PATCH", f"{PODS}/web-0/status", {"status": {"phase": "Failed"}})
        await site.run()
        assert site.lines("/eviction") == []
        (made,) = await site.jobs()
        assert made["spec"]["mode"] == "EvictDirectly"


async def test_a_job_that_needs_approval_waits_and_tells_how():
    async with Descheduled(Named("web-0"), args={"approval": "Required"}) as site:
        await site.workload()
        await site.run()
        (made,) = await site.jobs()
        assert made["spec"]["paused"]
        assert site.metric("dra_reserve_descheduler_approvals_waiting") == 1
        ((reason, text),) = site.recorded.events
        assert reason == "ApprovalRequired"
        assert "kubectl dra approve --help" in text


async def test_a_refused_job_leaves_the_pod_and_the_others_go():
    async with Descheduled(Named("web-0", "web-1")) as site:
        await site.workload()
        refused = []

        async def refuse_once(request):
            if request.method == "POST" and not refused:
                refused.append(request)
                return refusal(403, "Forbidden", "no right")
            return None

        site.answers[f"POST {JOBS}"] = refuse_once
        await site.run()
        assert [each["spec"]["podRef"]["name"] for each in await site.jobs()] == ["web-1"]
        assert site.metric("dra_reserve_descheduler_executions_total", outcome="Refused") == 1


async def test_a_round_whose_writes_fail_is_repeated_and_makes_no_job_twice():
    async with Descheduled(Named("web-0", "web-1")) as site:
        await site.workload()
        asked = []

        async def fail_second(request):
            asked.append(request)
            return refusal(500, "InternalError") if len(asked) == 2 else None

        site.answers[f"POST {JOBS}"] = fail_second
        await asyncio.sleep(60.0)  # a pod as old as a round might replace a pod that the round moved
        await site.run()
        await asyncio.sleep(30.0)
        assert sorted(each["spec"]["podRef"]["name"] for each in await site.jobs()) == ["web-0", "web-1"]
        assert site.metric("dra_reserve_descheduler_rounds_total", outcome="failed") == 1
        assert site.metric("dra_reserve_descheduler_rounds_total", outcome="completed") == 1
        assert site.metric("dra_reserve_descheduler_plugin_faults_total", plugin=Named.name) == 0


async def test_evictions_of_rounds_keep_the_pace_of_the_process():
    async with Descheduled(Named("web-0", "web-1", "web-2"), evictor="DefaultEvictor", args={"evictQPS": 0.1}) as site:
        site.evictor._pace = type(site.evictor._pace)(0.1, 1)
        await site.workload()
        await site.run()
        assert len(site.lines("/eviction")) == 1
        await asyncio.sleep(20.5)
        assert len(site.lines("/eviction")) == 3


async def test_a_standby_runs_no_round():
    plugin = Named("web-0")
    async with Descheduled(plugin) as site:
        site.watch()
        await site.informers.wait_for_sync()
        await asyncio.sleep(2 * INTERVAL)
        assert plugin.rounds == []


class Asked:
    """The evictor and the controller of a user."""

    def __init__(self, error=None):
        self.error, self.decisions, self.runs = error, [], 0

    async def evict(self, decision, handle):
        self.decisions.append((decision.pod.metadata.name, handle.write_timeout() > 0))
        if self.error:
            raise self.error

    async def run(self, handle):
        self.runs += 1
        if self.runs == 1:
            raise ValueError("not yet")
        handle.request_round("the plugin says so")
        await asyncio.sleep(1e6)


async def test_the_evictor_of_a_user_is_asked():
    mine = Asked()
    async with Descheduled(Named("web-0"), plugins=UserPlugins(evictors={"Mine": mine}), evictor="Mine") as site:
        await site.workload()
        await site.run()
        assert mine.decisions == [("web-0", True)]
        assert await site.jobs() == []


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError(), SystemExit(1)], ids=repr)
async def test_an_evictor_of_a_user_that_fails_is_counted_and_the_others_go(error):
    mine = Asked(error)
    async with Descheduled(
        Named("web-0", "web-1"), plugins=UserPlugins(evictors={"Mine": mine}), evictor="Mine"
    ) as site:
        await site.workload()
        await site.run()
        assert [name for name, _ in mine.decisions] == ["web-0", "web-1"]
        assert site.metric("dra_reserve_descheduler_executions_total", outcome="EvictorFailed") == 2


async def test_the_controller_of_a_user_runs_again_after_an_error_and_may_ask_for_a_round():
    mine, plugin = Asked(), Named()
    async with Descheduled(plugin, plugins=UserPlugins(controllers={"Mine": mine})) as site:
        await site.run()
        await asyncio.sleep(20.0)
        assert (mine.runs, len(plugin.rounds)) == (2, 2)


class Stubborn(Asked):
    """An evictor and a controller that cannot be cancelled."""

    def __init__(self, ignored=asyncio.CancelledError):
        super().__init__()
        self.ignored, self.ended = ignored, 0

    async def evict(self, decision, handle):
        self.decisions.append(decision.pod.metadata.name)
        await self.run(handle)

    async def run(self, handle):
        del handle
        try:
            while True:
                with contextlib.suppress(self.ignored):
                    await asyncio.sleep(1e6)
        finally:
            self.ended += 1


async def test_an_evictor_of_a_user_that_ignores_its_end_holds_up_no_other_pod():
    mine = Stubborn()
    async with Descheduled(
        Named("web-0", "web-1"), plugins=UserPlugins(evictors={"Mine": mine}), evictor="Mine"
    ) as site:
        await site.workload()
        await site.run()
        await asyncio.sleep(30.0)
        assert (mine.decisions, mine.ended) == (["web-0", "web-1"], 2)
        assert site.metric("dra_reserve_descheduler_executions_total", outcome="EvictorFailed") == 2


async def test_a_controller_of_a_user_that_ignores_its_end_keeps_no_process_from_its_end(caplog):
    mine = Stubborn()
    async with Descheduled(Named(), plugins=UserPlugins(controllers={"Mine": mine})) as site:
        await site.run()
        rounds = site._tasks[-1]
        rounds.cancel()
        await asyncio.wait({rounds}, timeout=5.0)
        assert (rounds.cancelled(), mine.ended) == (True, 1)
        assert "plugin Mine: ignores its cancellation, and is closed" in caplog.text


async def test_an_evictor_that_cleans_up_when_it_is_cancelled_has_the_time_for_it():
    class Tidy(Asked):
        async def evict(self, decision, handle):
            del handle
            try:
                await asyncio.sleep(1e6)
            finally:
                await asyncio.sleep(1.0)
                self.decisions.append(decision.pod.metadata.name)

    mine = Tidy()
    async with Descheduled(Named("web-0"), plugins=UserPlugins(evictors={"Mine": mine}), evictor="Mine") as site:
        await site.workload()
        await site.run()
        await asyncio.sleep(30.0)
        assert mine.decisions == ["web-0"]
        assert site.metric("dra_reserve_descheduler_executions_total", outcome="EvictorFailed") == 1


async def test_the_evictor_of_a_user_may_write_with_the_client_of_the_process():
    class Labels(Asked):
        async def evict(self, decision, handle):
            pod = decision.pod.metadata
            change = {"metadata": {"labels": {"leaves": "soon"}}}
            await handle.client.merge_patch(
                POD_RESOURCE, pod.key, change, model=UnstructuredObject, timeout_seconds=handle.write_timeout()
            )

    async with Descheduled(Named("web-0"), plugins=UserPlugins(evictors={"Mine": Labels()}), evictor="Mine") as site:
        await site.workload()
        await site.run()
        assert (await site.ask("GET", f"{PODS}/web-0"))["metadata"]["labels"]["leaves"] == "soon"
        assert site.metric("dra_reserve_descheduler_executions_total", outcome="Evicted") == 1


async def test_a_dry_run_asks_no_evictor_of_a_user():
    mine = Asked()
    plugins = UserPlugins(evictors={"Mine": mine})
    async with Descheduled(Named("web-0"), plugins=plugins, evictor="Mine", dry_run=True) as site:
        await site.workload()
        await site.run()
        assert mine.decisions == []


async def test_a_controller_of_a_user_that_returns_is_run_again_later_and_later():
    class Brief(Asked):
        async def run(self, handle):
            del handle
            self.runs += 1

    mine = Brief()
    async with Descheduled(Named(), plugins=UserPlugins(controllers={"Mine": mine})) as site:
        await site.run()
        await asyncio.sleep(60.0)
        soon = mine.runs
        await asyncio.sleep(3600.0)
        assert 4 <= soon <= 12
        assert mine.runs - soon <= 40


async def test_a_controller_of_a_user_that_is_cancelled_by_itself_is_run_again():
    class Cancelled(Asked):
        async def run(self, handle):
            del handle
            self.runs += 1
            if self.runs == 1:
                raise asyncio.CancelledError
            await asyncio.sleep(1e6)

    mine = Cancelled()
    async with Descheduled(Named(), plugins=UserPlugins(controllers={"Mine": mine})) as site:
        await site.run()
        await asyncio.sleep(10.0)
        assert mine.runs == 2


async def test_a_pod_whose_eviction_the_api_server_always_fails_keeps_no_other_pod_from_its_turn():
    async with Descheduled(Named("web-0", "web-1"), evictor="DefaultEvictor") as site:
        await site.workload()

        async def fail(request):
            del request
            return refusal(500, "InternalError")

        site.answers[f"POST {PODS}/web-0/eviction"] = fail
        await site.run()
        await asyncio.sleep(300.0)
        assert site.lines("web-1/eviction") == [f"POST {PODS}/web-1/eviction"]


@pytest.mark.parametrize(
    ("answer", "versions"),
    [
        pytest.param(None, ["v1.37.0+dra-reserve", "v1.38.0+dra-reserve"], id="upgraded-between-two-rounds"),
        pytest.param(refusal(503), ["", "v1.38.0+dra-reserve"], id="not-readable-at-first"),
    ],
)
async def test_each_round_allocates_devices_as_the_version_of_the_server_does(monkeypatch, answer, versions):
    given = []
    monkeypatch.setattr(
        rounds, "cluster_objects", lambda **objects: given.append(objects["server"]) or cluster_objects(**objects)
    )
    async with Descheduled(Named()) as site:
        if answer is not None:
            site.answers["GET /version"] = answer
        await site.run()
        site.answers["GET /version"] = Response(200, {}, b'{"gitVersion": "v1.38.0+dra-reserve"}')
        await asyncio.sleep(INTERVAL + 1.0)
    assert given == versions
