import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.engine.cpus.cpusets import CpuSet, parse
from kubeletplugin.cgroups.cpuset_plan import Cgroup, CgroupVersion, order_cpuset_writes, plan_cpusets
from tests.kubeletplugin.cgroups.trees import V1Kernel, path, shown, tree
from tests.violations import combinations, for_each_case

WIDE = {
    "": "0-7",
    "burstable": "0-7",
    "burstable/pod1": "0-7",
    "burstable/pod1/owner": "0-7",
    "burstable/pod1/sidecar": "0-7",
    "besteffort": "0-7",
    "besteffort/pod2": "0-7",
    "besteffort/pod2/other": "0-7",
    "pod3": "0-7",
    "pod3/owner-of-two": "0-7",
}


def test_owners_have_theirs_others_the_pool_and_what_is_above_both():
    found = plan_cpusets(
        tree(WIDE),
        version=CgroupVersion.V1,
        shared=parse("0-1,6-7"),
        owned={"owner": parse("2-3"), "owner-of-two": parse("4")},
    )
    assert shown(found) == {
        "burstable": "0-3,6-7",
        "burstable/pod1": "0-3,6-7",
        "burstable/pod1/owner": "2-3",
        "burstable/pod1/sidecar": "0-1,6-7",
        "besteffort": "0-1,6-7",
        "besteffort/pod2": "0-1,6-7",
        "besteffort/pod2/other": "0-1,6-7",
        "pod3": "0-1,4,6-7",
        "pod3/owner-of-two": "4",
    }


def test_containers_of_the_class_best_effort_have_what_owners_share_with_them():
    found = plan_cpusets(
        tree(WIDE),
        version=CgroupVersion.V1,
        shared=parse("0-1,6-7"),
        owned={"owner": parse("2-3"), "owner-of-two": parse("4")},
        best_effort=parse("0-1,4,6-7"),
    )
    assert shown(found) == {
        "burstable": "0-3,6-7",
        "burstable/pod1": "0-3,6-7",
        "burstable/pod1/owner": "2-3",
        "burstable/pod1/sidecar": "0-1,6-7",
        "besteffort": "0-1,4,6-7",
        "besteffort/pod2": "0-1,4,6-7",
        "besteffort/pod2/other": "0-1,4,6-7",
        "pod3": "0-1,4,6-7",
        "pod3/owner-of-two": "4",
    }


@for_each_case(
    combinations(
        ["pod0", "burstable/pod1", "besteffort/pod2"],
        [
            pytest.param(
                "new", {"pod0", "burstable/pod1", "besteffort/pod2"}, id="a-new-guaranteed-pod-beside-any-owner"
            ),
            pytest.param("burstable/new", {"burstable/pod1"}, id="a-new-burstable-pod-beside-an-owner-of-its-class"),
            pytest.param(
                "besteffort/new", {"besteffort/pod2"}, id="a-new-best-effort-pod-beside-an-owner-of-its-class"
            ),
            pytest.param("pod0/c", {"pod0"}, id="a-container-of-a-guaranteed-pod-that-is-there"),
            pytest.param("burstable/pod1/c", {"burstable/pod1"}, id="a-container-of-a-burstable-pod-that-is-there"),
            pytest.param("besteffort/pod2/c", {"besteffort/pod2"}, id="a-container-of-a-best-effort-pod-that-is-there"),
        ],
    )
)
def test_while_no_plugin_runs_those_overlap_with_an_owner_that_the_page_names(owner, born, overlaps):
    """The table of docs/how-to/cpus.md: a cgroup that is born without us has its parent's CPUs."""
    pods = ["pod0", "burstable", "burstable/pod1", "besteffort", "besteffort/pod2"]
    there = dict.fromkeys(["", *pods, f"{owner}/owner"], "0-7")
    found = plan_cpusets(tree(there), version=CgroupVersion.V1, shared=parse("0-1,4-7"), owned={"owner": parse("2-3")})
    has = {path(""): parse("0-7")} | found
    assert bool(has[path(born)[:-1]] & parse("2-3")) is (owner in overlaps)


def test_in_v2_what_was_never_written_stays_so_and_what_was_gets_all_cpus():
    found = plan_cpusets(
        tree({"": "0-7", "burstable": "", "besteffort": "0-3", "besteffort/pod1": "0-1", "besteffort/pod2": ""}),
        version=CgroupVersion.V2,
        shared=parse("0-7"),
        owned={},
    )
    assert shown(found) == {"burstable": "", "besteffort": "0-7", "besteffort/pod1": "0-7", "besteffort/pod2": ""}


def test_in_v2_what_lies_above_an_owner_stays_unwritten_if_it_must_have_everything():
    found = plan_cpusets(
        tree({"": "0-7", "burstable": "", "burstable/pod1": "", "burstable/pod1/c": ""}),
        version=CgroupVersion.V2,
        shared=parse("0-3"),
        owned={"c": parse("4-7")},
    )
    assert shown(found) == {"burstable": "", "burstable/pod1": "", "burstable/pod1/c": "4-7"}


def test_in_v2_cgroups_within_containers_are_left_alone():
    nested = tree({"": "0-7", "pod1": "", "pod1/c": "", "pod1/c/inner": "5"})
    assert path("pod1/c/inner") not in plan_cpusets(nested, version=CgroupVersion.V2, shared=parse("0-3"), owned={})


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        pytest.param("0-7", "0-3", id="follows-its-container"),
        pytest.param("1-2", "1-2", id="keeps-a-partition-within"),
        pytest.param("3-5", "3", id="loses-what-the-container-loses"),
        pytest.param("5-6", "0-3", id="has-to-run-somewhere"),
    ],
)
def test_in_v1_cgroups_within_containers(inner, expected):
    nested = tree({"": "0-7", "pod1": "0-7", "pod1/c": "0-7", "pod1/c/inner": inner})
    found = plan_cpusets(nested, version=CgroupVersion.V1, shared=parse("0-3"), owned={})
    assert shown(found)["pod1/c/inner"] == expected


def test_nothing_is_written_when_all_is_as_it_shall_be():
    wide = tree(WIDE)
    found = plan_cpusets(wide, version=CgroupVersion.V1, shared=parse("0-7"), owned={})
    assert list(order_cpuset_writes(wide, found, version=CgroupVersion.V1)) == []


cpus = st.sets(st.integers(0, 7), min_size=1).map(CpuSet)


@st.composite
def lawful_trees(draw):
    """Trees as v1 allows them: each cgroup within its parent; some just made, with no CPUs yet."""
    found = [Cgroup(path=(), cpus=CpuSet(range(8)))]
    names = draw(st.lists(st.sampled_from(["burstable", "besteffort"]), unique=True))
    for qos in [(), *((name,) for name in names)]:
        above = next(each.cpus for each in found if each.path == qos) if qos in [e.path for e in found] else None
        if above is None:
            above = draw(st.sets(st.integers(0, 7), min_size=1).map(CpuSet))
            found.append(Cgroup(path=qos, cpus=above))
        for number in range(draw(st.integers(0, 2))):
            pod = (*qos, f"pod{number}")
            held = draw(_within(above))
            found.append(Cgroup(path=pod, cpus=held))
            for each in range(draw(st.integers(0, 2)) if held else 0):
                own = draw(_within(held))
                found.append(Cgroup(path=(*pod, f"c{each}"), cpus=own))
                if own and draw(st.booleans()):
                    found.append(Cgroup(path=(*pod, f"c{each}", "inner"), cpus=draw(_within(own))))
    return found


def _within(above):
    return st.sets(st.sampled_from(sorted(above)) if above else st.nothing()).map(CpuSet)


def test_containers_of_the_class_best_effort_have_fewer_cpus_while_the_class_is_held_back():
    found = plan_cpusets(
        tree(WIDE),
        version=CgroupVersion.V1,
        shared=parse("0-1,6-7"),
        owned={"owner": parse("2-3"), "owner-of-two": parse("4")},
        best_effort=parse("6"),
    )
    assert {name: cpus for name, cpus in shown(found).items() if name.startswith("best")} == {
        "besteffort": "6",
        "besteffort/pod2": "6",
        "besteffort/pod2/other": "6",
    }
    assert shown(found)["burstable/pod1/sidecar"] == "0-1,6-7"


@given(
    cgroups=lawful_trees(),
    shared=cpus,
    owned=st.dictionaries(st.sampled_from(["c0", "c1"]), cpus),
    best_effort=st.none() | cpus,
)
def test_v1_accepts_every_single_write_and_ends_as_wanted(cgroups, shared, owned, best_effort):
    wanted = plan_cpusets(cgroups, version=CgroupVersion.V1, shared=shared, owned=owned, best_effort=best_effort)
    kernel = V1Kernel(cgroups)
    for each in order_cpuset_writes(cgroups, wanted, version=CgroupVersion.V1):
        kernel.write(each.path, each.cpus)
    assert {at: held for at, held in kernel.cpus.items() if at} == wanted
    again = [Cgroup(path=at, cpus=held) for at, held in kernel.cpus.items()]
    rest = plan_cpusets(again, version=CgroupVersion.V1, shared=shared, owned=owned, best_effort=best_effort)
    assert list(order_cpuset_writes(again, rest, version=CgroupVersion.V1)) == []


@given(cgroups=lawful_trees(), shared=cpus, owned=st.dictionaries(st.sampled_from(["c0", "c1"]), cpus))
def test_no_container_ever_has_a_cpu_it_had_not_and_shall_not_have(cgroups, shared, owned):
    wanted = plan_cpusets(cgroups, version=CgroupVersion.V1, shared=shared, owned=owned)
    before = {each.path: each.cpus for each in cgroups}
    for each in order_cpuset_writes(cgroups, wanted, version=CgroupVersion.V1):
        assert each.cpus <= before[each.path] | wanted[each.path]


@given(cgroups=lawful_trees(), shared=cpus, owned=st.dictionaries(st.sampled_from(["c0", "c1"]), cpus))
def test_v2_is_never_asked_for_what_it_refuses_to_cgroups_with_processes(cgroups, shared, owned):
    wanted = plan_cpusets(cgroups, version=CgroupVersion.V2, shared=shared, owned=owned)
    after = {each.path: each.cpus for each in cgroups}
    for each in order_cpuset_writes(cgroups, wanted, version=CgroupVersion.V2):
        assert each.cpus, "ENOSPC"
        after[each.path] = each.cpus
    machine = after[()]
    for at in wanted:
        assert (after[at] or machine) & machine >= wanted[at] & machine
