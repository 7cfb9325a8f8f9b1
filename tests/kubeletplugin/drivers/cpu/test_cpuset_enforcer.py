"""The enforcement on folders that look like cgroups; `test_real_cgroups` does the like on the kernel's."""

import asyncio
import errno
import shutil
import time
from unittest.mock import Mock

import pytest

from dra.engine.cpus.cpusets import parse
from dra.model.meta import Uid
from kubeletplugin.cgroups.cpuset_plan import CgroupVersion
from kubeletplugin.cgroups.hierarchy import CgroupHierarchy, find_hierarchy
from kubeletplugin.contract import PrepareError
from kubeletplugin.drivers.cpu import cpuset_enforcer, cpuset_store
from kubeletplugin.drivers.cpu.cpuset_enforcer import CpusetEnforcer
from kubeletplugin.drivers.cpu.cpuset_reconciler import ReconcileResult, reconcile
from kubeletplugin.drivers.cpu.cpuset_store import CpusetDemand, CpusetStore, cpu_owner_name
from tests.kubeletplugin.cgroups.trees import folders, make

BOTH = pytest.mark.parametrize("version", [pytest.param(version, id=version.name) for version in CgroupVersion])

PODS = {
    "kubepods": "0-7",
    "kubepods/burstable": "0-7",
    "kubepods/burstable/pod1": "0-7",
    "kubepods/burstable/pod1/mine": "0-7",
    "kubepods/besteffort": "0-7",
    "kubepods/besteffort/pod2": "0-7",
    "kubepods/besteffort/pod2/other": "0-7",
}
UNSET = {name: "0-7" if name == "kubepods" else "" for name in PODS}

MINE = cpu_owner_name("uid-1", "cpus")


class Node:
    """A machine whose cgroups are folders, and the plugins on it."""

    def __init__(self, folder, version):
        self.version = version
        self.root = folders(folder / "cgroup", PODS if version is CgroupVersion.V1 else UNSET, version=version)
        self.top = self.root / "cpuset" if version is CgroupVersion.V1 else self.root
        self.folder = folder / "driver"
        self.why_aside = None
        self.started = []

    def enforcement(self, find_cgroups=None):
        records = CpusetStore(self.folder, mark=self.root.parent / "run" / ".narrowed")
        records.install()
        it = CpusetEnforcer(
            records, find_cgroups or (lambda: find_hierarchy(self.root)), blocked_reason=lambda: self.why_aside
        )
        self.started.append(it)
        return it

    def cpus(self, name):
        return (self.top / "kubepods" / name / "cpuset.cpus").read_text().strip()

    def write(self, name, cpus):
        """Write in one step, as to a cgroup: the enforcer may write meanwhile, and nothing of either remains."""
        with (self.top / "kubepods" / name / "cpuset.cpus").open("r+") as file:
            file.write(cpus.ljust(64))

    def born(self, name):
        make(
            self.top / "kubepods" / name,
            "0-7" if self.version is CgroupVersion.V1 else "",
            version=self.version,
            effective="",
        )

    def record(self, container, *owners):
        folder = self.folder / "containers" / container
        folder.mkdir(parents=True, exist_ok=True)
        for each in owners:
            (folder / each).write_text("whatever\n")

    @property
    def untouched(self):
        """What everybody has before anybody has owned CPUs."""
        return "0-7" if self.version is CgroupVersion.V1 else ""


@pytest.fixture
async def node(tmp_path, version):
    it = Node(tmp_path, version)
    yield it
    for each in it.started:
        await each.close()


async def becomes(read, value, *, within=30.0):
    """Wait until a cgroup has CPUs."""
    deadline = time.monotonic() + within
    while read() != value:
        assert time.monotonic() < deadline, f"{read()!r} is not {value!r}"
        await asyncio.sleep(0.005)


@BOTH
async def test_others_lose_the_cpus_of_a_claim_and_get_them_back(node):
    it = node.enforcement()
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    assert node.cpus("besteffort/pod2/other") == "0-1,4-7"
    assert node.cpus("besteffort") == "0-1,4-7"
    await it.demand(CpusetDemand(requests={}))
    assert node.cpus("besteffort/pod2/other") == "0-7"
    assert node.cpus("besteffort") == "0-7"


@BOTH
async def test_a_demand_that_was_not_met_is_not_met_by_asking_again(node):
    it = node.enforcement()
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    for _ in range(2):
        with pytest.raises(PrepareError, match="claims hold all its CPUs"):
            await it.demand(CpusetDemand(requests={MINE: parse("0-7")}))


@BOTH
def test_a_container_whose_hook_runs_during_a_look_keeps_what_the_hook_gave_it(node):
    records = CpusetStore(node.folder)
    records.install()
    records.put_demand(CpusetDemand(requests={MINE: parse("2-3")}))

    def hook(folder):
        if folder.endswith("/mine"):  # records have been read, this cgroup has not
            node.record("mine", MINE)
            node.write("burstable/pod1/mine", "2-3")

    first = reconcile(find_hierarchy(node.root), records, entered=hook)
    assert first.late
    assert node.cpus("burstable/pod1/mine") == "2-3"
    while reconcile(find_hierarchy(node.root), records).again:
        pass
    assert node.cpus("burstable/pod1/mine") == "2-3"
    assert node.cpus("besteffort/pod2/other") == "0-1,4-7"


@BOTH
async def test_after_a_look_that_a_hook_has_overtaken_comes_another_without_a_pause(node, monkeypatch):
    it = node.enforcement()
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    looks = []

    def overtaken(*_, **__):
        looks.append(None)
        return ReconcileResult(late=len(looks) < 3, cost=1000.0)

    monkeypatch.setattr(cpuset_enforcer, "reconcile", overtaken)
    node.born("besteffort/pod2/new")
    await becomes(lambda: len(looks), 3)


@BOTH
async def test_a_container_has_what_its_hooks_said_it_owns_and_the_rest_of_its_pod_has_not(node):
    node.born("burstable/pod1/sidecar")
    node.record("mine", MINE, cpu_owner_name("uid-2", "one"))
    await node.enforcement().demand(
        CpusetDemand(requests={MINE: parse("2-3"), cpu_owner_name("uid-2", "one"): parse("6")})
    )
    assert node.cpus("burstable/pod1/mine") == "2-3,6"
    assert node.cpus("burstable/pod1/sidecar") == "0-1,4-5,7"
    assert node.cpus("burstable/pod1") == node.untouched  # it has to have both
    assert node.cpus("besteffort/pod2") == "0-1,4-5,7"


@BOTH
async def test_a_container_of_a_claim_given_back_has_the_shared_pool(node):
    it = node.enforcement()
    node.record("mine", MINE)
    await it.demand(CpusetDemand(requests={MINE: parse("2-3"), cpu_owner_name("uid-2", "one"): parse("6")}))
    await it.demand(CpusetDemand(requests={cpu_owner_name("uid-2", "one"): parse("6")}))
    assert node.cpus("burstable/pod1/mine") == "0-5,7"


@BOTH
async def test_nothing_is_touched_as_long_as_there_was_no_claim(node):
    node.write("besteffort/pod2/other", "5")
    await node.enforcement().demand(CpusetDemand(requests={}))
    assert node.cpus("besteffort/pod2/other") == "5"


@BOTH
async def test_what_is_as_it_shall_be_is_not_written(node):
    it = node.enforcement()
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    file = node.top / "kubepods/besteffort/pod2/other/cpuset.cpus"
    before = file.stat().st_mtime_ns
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    assert file.stat().st_mtime_ns == before


@BOTH
async def test_a_pod_that_comes_later_is_narrowed_as_soon_as_it_is_there(node):
    await node.enforcement().demand(CpusetDemand(requests={MINE: parse("2-3")}))
    node.born("besteffort/pod3")
    await becomes(lambda: node.cpus("besteffort/pod3"), "0-1,4-7")
    node.born("besteffort/pod3/new")
    await becomes(lambda: node.cpus("besteffort/pod3/new"), "0-1,4-7")


@BOTH
async def test_what_somebody_else_writes_is_put_right(node):
    await node.enforcement().demand(CpusetDemand(requests={MINE: parse("2-3")}))
    node.write("besteffort/pod2/other", "0-7")
    await becomes(lambda: node.cpus("besteffort/pod2/other"), "0-1,4-7")


@BOTH
async def test_without_inotify_it_looks_by_itself(node, monkeypatch, caplog):
    def none(_):
        raise OSError(errno.EMFILE, "no more instances")

    monkeypatch.setattr(cpuset_enforcer, "CgroupWatcher", none)
    await node.enforcement().demand(CpusetDemand(requests={MINE: parse("2-3")}))
    node.born("besteffort/pod3")
    await becomes(lambda: node.cpus("besteffort/pod3"), "0-1,4-7")
    assert caplog.text.count("no more instances") == 1


@BOTH
async def test_when_the_kernel_watches_no_more_folders_it_looks_by_itself(node, monkeypatch, caplog):
    def none(*_):
        raise OSError(errno.ENOSPC, "no more watches")

    monkeypatch.setattr(cpuset_enforcer.CgroupWatcher, "add", none)
    await node.enforcement().demand(CpusetDemand(requests={MINE: parse("2-3")}))
    node.born("besteffort/pod3")
    await becomes(lambda: node.cpus("besteffort/pod3"), "0-1,4-7")
    assert caplog.text.count("no more watches") == 1


@BOTH
async def test_a_plugin_that_starts_again_goes_on(node):
    first = node.enforcement()
    await first.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    await first.close()
    node.born("besteffort/pod3")
    await node.enforcement().demand(CpusetDemand(requests={MINE: parse("2-3")}))
    assert node.cpus("besteffort/pod3") == "0-1,4-7"


@BOTH
async def test_a_plugin_that_died_between_release_and_widening_leaves_nobody_narrow(node):
    first = node.enforcement()
    await first.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    await first.close()
    await node.enforcement().demand(CpusetDemand(requests={}))
    assert node.cpus("besteffort/pod2/other") == "0-7"


@BOTH
async def test_the_older_of_two_plugins_does_not_undo_what_the_newer_one_has_prepared(node):
    older, newer = node.enforcement(), node.enforcement()
    await older.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    await newer.demand(CpusetDemand(requests={MINE: parse("2-3"), cpu_owner_name("uid-2", "one"): parse("6")}))
    await newer.close()
    node.write("besteffort/pod2/other", "0-7")
    await becomes(lambda: node.cpus("besteffort/pod2/other"), "0-1,4-5,7")


@BOTH
async def test_a_demand_that_another_plugin_wrote_before_it_died_is_met_before_the_answer(node, monkeypatch):
    monkeypatch.setattr(cpuset_enforcer, "MIN_RESYNC_INTERVAL", 3600.0)
    later = CpusetDemand(requests={MINE: parse("2-3"), cpu_owner_name("uid-2", "one"): parse("6")})
    survivor = node.enforcement()
    await survivor.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    CpusetStore(node.folder).put_demand(later)  # and the other one died
    await survivor.demand(later)
    assert node.cpus("besteffort/pod2/other") == "0-1,4-5,7"


def test_a_refusal_that_a_full_disk_kept_from_being_saved_is_saved_later(tmp_path, monkeypatch):
    store = CpusetStore(tmp_path)
    store.put_refusals({Uid("uid-1"): "moved"})
    with monkeypatch.context() as full:
        full.setattr(cpuset_store, "write_atomically", Mock(side_effect=OSError(errno.ENOSPC, "No space left")))
        with pytest.raises(OSError, match="No space left"):
            store.put_refusals({Uid("uid-2"): "moved"})
    store.put_refusals({Uid("uid-1"): "moved"})
    assert [path.name for path in (tmp_path / "refused").iterdir()] == ["uid-1"]


@BOTH
async def test_a_plugin_whose_folder_was_removed_before_its_start_makes_cgroups_wide(node, monkeypatch, caplog):
    before = node.enforcement()
    await before.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    await before.close()
    shutil.rmtree(node.folder)
    monkeypatch.setattr(cpuset_enforcer, "QUIET_PERIOD", -1.0)
    it = node.enforcement()
    await it.resume_enforcement()  # which claims there are is not known: nothing is taken from an owner
    assert node.cpus("besteffort") == "0-1,4-7"
    for _ in range(3):
        await it.demand(CpusetDemand(requests={}))
    for name in ("burstable", "besteffort", "besteffort/pod2", "besteffort/pod2/other"):
        assert node.cpus(name) == "0-7"
    assert caplog.text.count("was created again; restoring all CPUs to the cgroups of pods") == 1
    node.write("besteffort/pod2/other", "5")
    await node.enforcement().demand(CpusetDemand(requests={}))  # the mark is gone, too
    assert node.cpus("besteffort/pod2/other") == "5"


@BOTH
async def test_once_all_is_restored_cgroups_are_let_alone(node, monkeypatch):
    monkeypatch.setattr(cpuset_enforcer, "QUIET_PERIOD", -1.0)
    it = node.enforcement()
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    await it.demand(CpusetDemand(requests={}))
    await it.demand(CpusetDemand(requests={}))
    assert not (node.folder / "demand.json").exists()
    node.write("besteffort/pod2/other", "5")
    await it.demand(CpusetDemand(requests={}))
    assert node.cpus("besteffort/pod2/other") == "5"


@BOTH
async def test_records_of_containers_that_are_gone_are_removed(node):
    node.record("mine", MINE)
    node.record("gone", cpu_owner_name("uid-0", "cpus"))
    await node.enforcement().demand(CpusetDemand(requests={MINE: parse("2-3")}))
    assert [each.name for each in (node.folder / "containers").iterdir()] == ["mine"]


@BOTH
@pytest.mark.parametrize("removed", [pytest.param("", id="all-of-it"), pytest.param("containers", id="its-records")])
async def test_owners_keep_their_cpus_though_the_drivers_folder_is_removed(node, removed, caplog):
    it, demand = node.enforcement(), CpusetDemand(requests={MINE: parse("2-3")}, kept=parse("7"))
    CpusetStore(node.folder).put_kept(demand.kept)
    node.write("burstable/pod1/mine", "2-3")
    node.record("mine", MINE)
    await it.demand(demand)
    shutil.rmtree(node.folder / removed)
    node.born("besteffort/pod3")  # has the plugin look
    await becomes(lambda: node.cpus("besteffort/pod3"), "0-1,4-6")
    assert node.cpus("burstable/pod1/mine") == "2-3"

    await it.demand(demand)
    names = {str(path.relative_to(node.folder)) for path in node.folder.rglob("*")}
    assert {"hook.sh", "demand.json", "kept", f"containers/mine/{MINE}", "failures"} <= names
    again = node.enforcement()
    await again.demand(demand)
    assert node.cpus("burstable/pod1/mine") == "2-3"
    assert caplog.text.count("had been removed; written again from memory") == 1


@BOTH
async def test_what_is_known_of_a_container_goes_with_it_though_its_record_went_before(node):
    it, demand = node.enforcement(), CpusetDemand(requests={MINE: parse("2-3")})
    node.record("mine", MINE)
    await it.demand(demand)
    shutil.rmtree(node.folder / "containers/mine")
    shutil.rmtree(node.top / "kubepods/burstable/pod1/mine")
    node.born("besteffort/pod3")
    await becomes(lambda: node.cpus("besteffort/pod3"), "0-1,4-7")
    await it.demand(demand)
    assert list((node.folder / "containers").iterdir()) == []


@BOTH
async def test_a_plugin_that_does_not_know_its_claims_enforces_the_demand_that_is_written_down(node):
    node.record("mine", MINE)
    before = node.enforcement()
    await before.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    await before.close()
    node.born("burstable/pod3")
    it = node.enforcement()
    await it.resume_enforcement()
    assert node.cpus("burstable/pod3") == "0-1,4-7"
    assert node.cpus("burstable/pod1/mine") == "2-3"
    node.born("burstable/pod3/new")
    await becomes(lambda: node.cpus("burstable/pod3/new"), "0-1,4-7")


@BOTH
async def test_a_plugin_that_knows_neither_its_claims_nor_a_demand_touches_nothing(node):
    node.write("besteffort/pod2/other", "5")
    await node.enforcement().resume_enforcement()
    assert node.cpus("besteffort/pod2/other") == "5"


@BOTH
async def test_claims_on_all_cpus_are_refused(node):
    with pytest.raises(PrepareError, match=r"other containers cannot run; .*--reserved-cpus"):
        await node.enforcement().demand(CpusetDemand(requests={MINE: parse("0-7")}))


@BOTH
async def test_a_node_without_a_kubelet_is_refused(node):
    with pytest.raises(PrepareError, match="node: CPUs are not enforced: cgroups at"):
        await node.enforcement(lambda: find_hierarchy(node.folder)).demand(CpusetDemand(requests={MINE: parse("1")}))


@BOTH
async def test_cgroups_that_a_kubelet_with_another_driver_has_left_behind_are_not_taken_for_those_of_pods(node):
    it = node.enforcement()
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    for name in ("", "/kubepods-besteffort.slice"):
        make(node.top / f"kubepods.slice{name}", "0-7", version=node.version, effective="0-7")
    with pytest.raises(PrepareError, match=r"several kubelets have cgroups .* choose one with --kubepods-cgroup"):
        await it.demand(CpusetDemand(requests={MINE: parse("2-4")}))
    shutil.rmtree(node.top / "kubepods")
    await it.demand(CpusetDemand(requests={MINE: parse("2-4")}))
    assert (node.top / "kubepods.slice/kubepods-besteffort.slice/cpuset.cpus").read_text().strip() == "0-1,5-7"


@BOTH
async def test_beside_the_kubelets_static_manager_nothing_is_written(node):
    node.why_aside = "the kubelet allocates CPUs"
    it = node.enforcement()
    with pytest.raises(PrepareError, match="the kubelet allocates CPUs"):
        await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    await it.demand(CpusetDemand(requests={}))
    assert node.cpus("besteffort/pod2/other") == node.untouched


@BOTH
async def test_for_the_kubelets_static_manager_classes_and_pods_are_made_wide_once_and_containers_are_left_to_it(node):
    it, demand = node.enforcement(), CpusetDemand(requests={MINE: parse("2-3")})
    node.record("mine", MINE)
    await it.demand(demand)
    narrow = node.cpus("besteffort/pod2/other")
    node.why_aside = "the kubelet allocates CPUs"
    with pytest.raises(PrepareError, match="the kubelet allocates CPUs"):
        await it.demand(demand)
    for name in ("burstable", "burstable/pod1", "besteffort", "besteffort/pod2"):
        assert node.cpus(name) in ("0-7", "")
    assert node.cpus("besteffort/pod2/other") == narrow
    assert not (node.folder / "demand.json").exists()

    node.write("besteffort", "4")
    with pytest.raises(PrepareError):
        await it.demand(demand)
    assert node.cpus("besteffort") == "4"

    node.why_aside = None
    await it.demand(demand)
    assert node.cpus("besteffort") == "0-1,4-7"


@BOTH
async def test_classes_are_made_wide_for_the_kubelet_though_it_is_not_known_which_claims_there_are(node):
    before = node.enforcement()
    await before.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    await before.close()
    node.why_aside = "the kubelet allocates CPUs"
    await node.enforcement().resume_enforcement()
    assert node.cpus("besteffort") == "0-7"


@pytest.mark.parametrize("version", [CgroupVersion.V1])
async def test_looking_after_cgroups_begins_again_after_a_defect(node, monkeypatch, caplog):
    it = node.enforcement()
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    with monkeypatch.context() as broken:
        broken.setattr(it, "_drain_events", lambda: 1 / 0)
        node.born("besteffort/pod3")
        await asyncio.wait([it._watch_task], timeout=60)
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    await becomes(lambda: node.cpus("besteffort/pod3"), "0-1,4-7")
    assert "ZeroDivisionError" in caplog.text


class Busy(CgroupHierarchy, frozen=True):
    """A kernel that refuses some writes."""

    refusals: list[str]

    def write(self, path, cpus):
        if self.refusals:
            raise OSError(errno.EBUSY, self.refusals.pop())
        return super().write(path, cpus)


@pytest.mark.parametrize("version", [CgroupVersion.V1])
async def test_what_the_kernel_refuses_is_tried_again(node):
    found = find_hierarchy(node.root)
    it = node.enforcement(lambda: Busy(pods=found.pods, version=found.version, top=found.top, refusals=["busy"] * 3))
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    assert node.cpus("besteffort/pod2/other") == "0-1,4-7"


@pytest.mark.parametrize("version", [CgroupVersion.V1])
async def test_what_the_kernel_always_refuses_is_said_and_stays_demanded(node, monkeypatch):
    monkeypatch.setattr(cpuset_enforcer, "ENFORCE_TIMEOUT", 0.05)
    found = find_hierarchy(node.root)
    it = node.enforcement(
        lambda: Busy(pods=found.pods, version=found.version, top=found.top, refusals=["busy"] * 10_000)
    )
    with pytest.raises(PrepareError, match=r"cgroup .*: CPUs .*: busy"):
        await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    assert (node.folder / "demand.json").exists()


@BOTH
async def test_failures_of_hooks_are_logged_once(node, caplog, monkeypatch):
    monkeypatch.setattr(cpuset_enforcer, "MIN_RESYNC_INTERVAL", 0.01)
    it = node.enforcement()
    (node.folder / "failures" / "c1").write_text("claim uid uid-1: CPUs 9 are not given to container c1: no\n")
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    await becomes(lambda: caplog.text.count("are not given to container c1"), 1)
    assert not list((node.folder / "failures").iterdir())


def unplugged(node, cpus):
    """What the kernel makes of all cpusets of v1 when only these CPUs are online; the root alone gets others back."""
    for file in node.top.rglob("cpuset.cpus"):
        file.write_text(f"{parse(file.read_text()) & parse(cpus)}\n" if file.parent != node.top else f"{cpus}\n")


@pytest.mark.parametrize("version", [CgroupVersion.V1])
async def test_cpus_that_were_offline_for_a_while_come_back_to_claims_and_to_everybody(node, monkeypatch, caplog):
    monkeypatch.setattr(cpuset_enforcer, "MIN_RESYNC_INTERVAL", 0.01)
    monkeypatch.setattr(cpuset_enforcer, "IDLE_CPU_SHARE", 1.0)
    it = node.enforcement()
    node.record("mine", MINE)
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    unplugged(node, "0-2,4-6")
    await becomes(lambda: str(it._offline_cpus._offline), "3,7")
    assert node.cpus("burstable/pod1/mine") == "2"
    (node.top / "cpuset.cpus").write_text("0-7\n")
    await becomes(lambda: node.cpus("burstable/pod1/mine"), "2-3")
    await becomes(lambda: node.cpus("besteffort/pod2/other"), "0-1,4-7")
    assert node.cpus("") == "0-7"
    assert caplog.text.count("restored to the pods") == 1


@pytest.mark.parametrize("version", [CgroupVersion.V1])
async def test_cpus_that_were_offline_come_back_to_everybody_though_the_plugin_was_started_again_meanwhile(node):
    demand = CpusetDemand(requests={MINE: parse("2-3")})
    first = node.enforcement()
    await first.demand(demand)
    unplugged(node, "0-6")
    node.born("besteffort/pod3")  # has the plugin look
    await becomes(lambda: str(first._offline_cpus.lost), "7")
    await first.close()
    second = node.enforcement()
    (node.top / "cpuset.cpus").write_text("0-7\n")
    await second.demand(demand)
    assert node.cpus("") == "0-7"
    assert node.cpus("besteffort/pod2/other") == "0-1,4-7"
    await second.close()

    node.write("", "0-6")  # an administrator, after a third start: not lost, but taken
    await node.enforcement().demand(demand)
    assert node.cpus("") == "0-6"


@pytest.mark.parametrize("version", [CgroupVersion.V1])
async def test_a_claim_gets_a_cpu_that_was_offline_before_there_were_claims(node):
    unplugged(node, "0-2,4-7")
    (node.top / "cpuset.cpus").write_text("0-7\n")
    it = node.enforcement()
    node.record("mine", MINE)
    await it.demand(CpusetDemand(requests={MINE: parse("2-3")}))
    assert node.cpus("burstable/pod1/mine") == "2-3"
    assert node.cpus("besteffort/pod2/other") == "0-1,4-7"
    assert node.cpus("") == "0-7"
