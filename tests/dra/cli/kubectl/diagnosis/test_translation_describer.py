"""The lines of `kubectl dra explain pod` about requests in Koordinator's form."""

import json

import msgspec
import pytest
from click.testing import CliRunner

from dra.cli.kubectl.diagnosis.translation_describer import request_text
from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots import bundle_file
from dra.engine.translation import template_names
from tests.dra.engine.diagnosis.koordinator_pods import CPU_DRIVER, bound, half, offers, share, unequal
from tests.dra.engine.diagnosis.test_translation import DISABLED, taken
from tests.violations import for_each_case


def told(tmp_path, *arguments, pod, claims=(), **more):
    bundle_file.write_bundle(taken(pod, *claims, **more), tmp_path / "b.tgz")
    return CliRunner().invoke(main, [*arguments, "--from", str(tmp_path / "b.tgz")])


def explain(tmp_path, *arguments, **cluster):
    return told(tmp_path, "explain", "pod", "a", *arguments, **cluster)


@for_each_case(
    [
        pytest.param("koord-cpu-1-default-lse", "1 CPU as LSE", id="one-cpu"),
        pytest.param(
            "koord-cpu-4-full-required-pcpu-lsr",
            "4 CPUs as LSR, FullPCPUs required, exclusive by PCPULevel",
            id="policies",
        ),
        pytest.param("koord-cpu-2-spread-lsr", "2 CPUs as LSR, SpreadByPCPUs preferred", id="preferred"),
        pytest.param("koord-gpu-c50-r50-s1", "50 % of the compute and 50 % of the memory of a card", id="half"),
        pytest.param(
            "koord-gpu-c50-r50-s2", "25 % of the compute and 25 % of the memory of each of 2 cards", id="quarters"
        ),
        pytest.param("koord-gpu-m8192-s1", "8192 MiB of a card", id="bytes"),
        pytest.param(
            "koord-gpu-r400-s4-pcie", "100 % of the memory of each of 4 cards of one PCIe root", id="of-one-pcie-root"
        ),
        pytest.param(
            "koord-numa-single.cpu-4-default-lsr.gpu-0-c50-r50-s1",
            "4 CPUs as LSR, 50 % of the compute and 50 % of the memory of a card (gpu-0); "
            "on one NUMA node (SingleNUMANode)",
            id="one-numa-node",
        ),
    ]
)
def test_a_request_is_told_in_words(name, text):
    assert request_text(template_names.parse(name)) == text


def test_a_share_is_told_from_the_request_to_the_card(tmp_path):
    claim = share("a-gpu", "gpu-0", memory="8Gi", core="50")
    done = explain(tmp_path, pod=half(translated=True, on="n1", koord_gpu_0="a-gpu"), claims=[claim])
    assert done.exit_code == 0, done.output
    assert "card      gpu-0 on node n1: 8Gi of memory (50 %), 50 % of compute\n" in done.stdout
    assert (
        "request koord-gpu-0: 50 % of the compute and 50 % of the memory of a card for container main; claim a-gpu "
        "from template koord-gpu-c50-r50-s1"
    ) in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("cpuset", "text"),
    [
        pytest.param("2-4", "cpus      3 CPUs of node n1: CPUs 2-4\n", id="reported"),
        pytest.param("", "cpus      3 CPUs of node n1: which ones is not reported\n", id="not-reported"),
    ],
)
def test_bound_cpus_are_told(tmp_path, cpuset, text):
    claim = share("a-cpus", "cpus", driver=CPU_DRIVER, cpuset=cpuset, cpu="3")
    done = explain(tmp_path, pod=bound(translated=True, on="n1", koord_cpus="a-cpus"), claims=[claim])
    assert text in done.stdout


@pytest.mark.parametrize(
    ("pod", "cluster", "code", "texts"),
    [
        pytest.param(
            half(),
            {"enabled": DISABLED},
            1,
            [
                "not translated, the namespace is not enabled: 50 %",
                "NamespaceNotEnabled",
                "namespace ml is not enabled",
            ],
            id="not-enabled",
        ),
        pytest.param(half(), {}, 1, ["not translated, the namespace is enabled", "RequestNotTranslated"], id="too-old"),
        pytest.param(half(), {"server": "v1.35.2"}, 1, ["older than Kubernetes 1.36"], id="before-1.36"),
        pytest.param(
            half(), {"enabled": {}}, 1, ["whether the namespace is enabled could not be read"], id="namespace-unread"
        ),
        pytest.param(
            unequal(),
            {"enabled": DISABLED},
            1,
            ["refused by the translation", "spec.containers[0].resources.limits.cpu: must equal requests.cpu"],
            id="refused",
        ),
        pytest.param(
            half(translated=True),
            {},
            1,
            ["template koord-gpu-c50-r50-s1 does not exist yet", "RequestTemplateMissing", "koordinator: true"],
            id="no-template",
        ),
        pytest.param(half(translated=True), {"slices": offers(cards=0)}, 1, ["--gpu-shares"], id="no-cards"),
    ],
)
def test_what_became_of_a_request_is_told_with_what_to_do(tmp_path, pod, cluster, code, texts):
    done = explain(tmp_path, pod=pod, **cluster)
    shown = " ".join(done.stdout.split())
    assert [text for text in texts if text not in shown] == [], done.stdout
    assert done.exit_code == code


def test_data_has_the_request_and_what_was_given(tmp_path):
    claim = share("a-gpu", "gpu-0", memory="8Gi", core="50")
    pod = half(translated=True, on="n1", koord_gpu_0="a-gpu")
    found = json.loads(explain(tmp_path, "-o", "json", pod=pod, claims=[claim]).stdout)
    (entry,) = found["translation"]["entries"]
    assert (found["translation"]["namespaceEnabled"], found["translation"]["refusals"]) == (True, [])
    assert (entry["template"], entry["claim"], entry["containers"]) == ("koord-gpu-c50-r50-s1", "a-gpu", ["main"])
    assert found["cards"] == [
        {"claim": "a-gpu", "node": "n1", "device": "gpu-0", "memory": "8Gi", "ratio": "50", "core": "50"}
    ]


def test_usage_by_capacity_shows_shares_and_bound_cpus(tmp_path):
    claims = [
        share("a-gpu", "gpu-0", memory="8Gi", core="50"),
        share("a-cpus", "cpus", driver=CPU_DRIVER, cpuset="2-4", cpu="3"),
    ]
    done = told(tmp_path, "usage", "--by", "capacity", "-o", "wide", pod=half(), claims=claims)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[:4] == [
        ["DEVICE", "NODE", "CAPACITY", "USED", "TOTAL", "PODS", "CLAIMS", "FREE", "USED%", "CPUS"],
        ["cpu.reserve.dra/n1/cpus", "n1", "dra.cpu/cpu", "3", "14", "0", "1", "11", "21%", "2-4"],
        ["gpu.reserve.dra/n1/gpu-0", "n1", "core", "50", "100", "0", "1", "50", "50%", "<none>"],
        ["gpu.reserve.dra/n1/gpu-0", "n1", "memory", "8Gi", "16Gi", "0", "1", "8Gi", "50%", "<none>"],
    ]
    totals = [line for line in lines if line[0] == "<total>"]
    assert [line[1] for line in totals] == ["core", "dra.cpu/cpu", "memory"]


def test_usage_by_capacity_is_of_the_whole_cluster(tmp_path):
    done = told(tmp_path, "usage", "--by", "capacity", "-l", "a=b", pod=half())
    assert (done.exit_code, "-l does not work with --by capacity" in done.stderr) == (2, True)


def test_the_namespaces_are_in_a_bundle(tmp_path):
    bundle_file.write_bundle(taken(half(), enabled=DISABLED), tmp_path / "b.tgz")
    assert bundle_file.read_bundle(tmp_path / "b.tgz").enabled_namespaces == msgspec.to_builtins(DISABLED)
