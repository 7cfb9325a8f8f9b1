"""What a support bundle leaves out, so that collecting it does not end the plugin beside it."""

import io
import json
import tarfile

import pytest

from kubeletplugin import support_bundle
from kubeletplugin.cgroups.cgroup_tree import POD_CGROUPS_MAX
from kubeletplugin.support_bundle import BundleSources, build_bundle
from tests.kubeletplugin.cgroups.greedy import GREEDY, greedy_pod

DRIVER = "gpu.reserve.dra"
LIMIT = 256 << 10


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(support_bundle, "MAX_BUNDLE_SIZE", LIMIT)
    monkeypatch.setattr(support_bundle, "MAX_FILE_SIZE", LIMIT // 2)


@pytest.fixture
def sources(tmp_path):
    (tmp_path / "plugins" / DRIVER / "containers").mkdir(parents=True)
    return BundleSources(
        plugins=tmp_path / "plugins",
        registry=tmp_path / "registry",
        cdi=tmp_path / "cdi",
        kubelet=tmp_path / "kubelet",
        cgroups=tmp_path / "cgroups",
        drivers=(DRIVER,),
    )


def contents(sources, *, slices=b"{}"):
    with tarfile.open(fileobj=io.BytesIO(build_bundle(sources, slices=slices, published=""))) as archive:
        return {each.name.partition("/")[2]: archive.extractfile(each).read() for each in archive.getmembers()}


def test_a_part_that_does_not_fit_is_replaced_by_the_reason(sources):
    for name in ("checkpoint.json", "checkpoint.json.previous", "demand.json"):
        (sources.plugins / DRIVER / name).write_bytes(b"x" * 100_000)
    found = contents(sources)
    assert len(found[f"plugins/{DRIVER}/checkpoint.json"]) == 100_000
    assert found[f"plugins/{DRIVER}/demand.json"] == (
        b"left out, its 100000 bytes exceed what a bundle can have; copy the file\n"
    )
    assert sum(map(len, found.values())) < LIMIT + 4096


def test_slices_that_do_not_fit_leave_room_for_all_other_parts(sources):
    (sources.plugins / DRIVER / "checkpoint.json").write_bytes(b"{}")
    found = contents(sources, slices=b"x" * (LIMIT + 1))
    assert found["resourceslices.json"].startswith(b"left out")
    assert found[f"plugins/{DRIVER}/checkpoint.json"] == b"{}"


def test_many_small_files_take_no_more_than_a_large_one(sources):
    for number in range(20):
        (sources.plugins / DRIVER / "containers" / f"c{number}").write_bytes(b"x" * 10_000)
    found = json.loads(contents(sources)[f"plugins/{DRIVER}/containers.json"])
    assert len(found) == 20
    assert [len(each) for each in found.values()].count(10_000) == 13


@pytest.mark.parametrize("shape", GREEDY)
def test_cgroups_that_a_container_made_are_shown_up_to_a_bound_and_hide_no_others(sources, shape):
    pods = sources.cgroups / "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice"
    for name in ("pod1.slice/c", "pod2.slice/c"):
        (pods / name).mkdir(parents=True)
        (pods / name / "cpuset.cpus").write_text("0-3\n")
    with greedy_pod(pods / "pod1.slice/c", shape):
        cpusets = json.loads(contents(sources)["cgroups.json"])["cpusets"]
    assert cpusets[str(pods / "pod2.slice/c")] == {"cpuset.cpus": "0-3"}
    assert len(cpusets) <= POD_CGROUPS_MAX + 6
