"""What kubectl offers after ``kubectl dra`` and a tab."""

from contextlib import asynccontextmanager

import pytest

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl import object_names
from dra.cli.kubectl.completion import DIRECTIVE_DEFAULT, DIRECTIVE_NO_FILE_COMP, completions
from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.main import COMMANDS
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.resources import SLICES
from dra.model.references import GroupResource
from localplane.routes import Route
from localplane.server import ApiServer
from localplane.transport import LocalTransport
from tests.dra.engine.diagnosis.cluster_states import offer
from tests.violations import for_each_case


def names(words):
    lines, directive = completions(words)
    return [line.partition("\t")[0] for line in lines], directive


def test_all_commands_are_offered():
    found, directive = names([""])
    assert (set(found), directive) == (set(COMMANDS), DIRECTIVE_NO_FILE_COMP)


@for_each_case(
    [
        pytest.param(["ex"], ["explain"], id="a-command-begun"),
        pytest.param(["get", ""], ["claims", "devices", "pods", "nodes", "reservations", "migrations"], id="kinds"),
        pytest.param(["tree", ""], ["workloads", "nodes", "reservations"], id="kinds-of-trees"),
        pytest.param(["usage", "--by", "n"], ["namespace", "node"], id="values-of-an-option"),
        pytest.param(["audit", "--fail"], ["--fail-on"], id="an-option"),
        pytest.param(["explain", "depl"], ["deployment"], id="kinds-of-workloads"),
        pytest.param(["explain", "ray"], ["rayjobs.ray.io", "rayclusters.ray.io"], id="custom-kinds"),
        pytest.param(
            ["reserve", "r", "--owner", "jobs"],
            ["jobsets.jobset.x-k8s.io/", "jobs.batch.volcano.sh/"],
            id="kinds-of-owners",
        ),
        pytest.param(["install", "--with", "reservations,g"], ["reservations,gate"], id="components-behind-a-comma"),
        pytest.param(["wait", "claim", "c", "--for", ""], ["released", "allocated", "deleted"], id="states-of-a-claim"),
        pytest.param(
            ["wait", "rsv/r", "--for", ""],
            ["available", "ended", "deleted", "condition=Available"],
            id="states-of-a-reservation",
        ),
    ]
)
def test_what_can_follow_is_offered(words, offered):
    assert names(words) == (offered, DIRECTIVE_NO_FILE_COMP)


def test_for_a_bundle_files_are_offered():
    assert names(["audit", "--from", ""]) == ([], DIRECTIVE_DEFAULT)


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    "words",
    [["explain", "claim", ""], ["release", "claim", "t"], ["explain", "device", ""], ["explain", "calim", ""]],
    ids=" ".join,
)
def test_without_a_cluster_no_names_are_offered_and_nothing_fails(words):
    assert names(words) == ([], DIRECTIVE_NO_FILE_COMP)


@pytest.mark.parametrize(
    ("words", "asked", "offered"),
    [
        pytest.param(["explain", "claim", "t"], "claim", ["train", "test"], id="claims"),
        pytest.param(["why", "po", "tr"], "pod", ["train"], id="pods-by-their-short-name"),
        pytest.param(["wait", "-n", "ml", "claim", ""], "claim", ["train", "test", "other"], id="after-an-option"),
        pytest.param(["get", "claims", "tra"], "claim", ["train"], id="of-a-list"),
        pytest.param(["explain", "pod/tr"], "pod", ["pod/train"], id="behind-a-slash"),
        pytest.param(["explain", "device", "t"], "device", ["train", "test"], id="devices"),
        pytest.param(["wait", "reservation", "o"], "reservation", ["other"], id="reservations"),
        pytest.param(["reservations", "o"], "reservation", ["other"], id="reservations-without-a-kind"),
        pytest.param(["migrations", "o"], "migration", ["other"], id="migrations-without-a-kind"),
        pytest.param(["reserve", "r", "--node", "tr"], "node", ["train"], id="node-of-a-reservation"),
        pytest.param(["simulate", "--cordon", "tr"], "node", ["train"], id="cordoned-node"),
        pytest.param(["simulate", "--add-nodes", "tr"], "node", ["train="], id="added-node"),
        pytest.param(["simulate", "--drop-reservation", "tr"], "claim", ["train"], id="dropped-claim"),
    ],
)
def test_names_that_a_cluster_has_are_offered(monkeypatch, words, asked, offered):
    kinds = []

    def known(kind, options):
        kinds.append((kind, options.get("namespace")))
        return ["train", "test", "other"]

    monkeypatch.setattr("dra.cli.kubectl.resource_args.list_names", known)
    assert names(words)[0] == offered
    assert kinds == ([(asked, "ml" if "-n" in words else None)] if asked else [])


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        pytest.param(["explain", "reason", "WorkloadG"], ["WorkloadGone"], id="reasons"),
        pytest.param(["explain", "reason/WorkloadG"], ["reason/WorkloadGone"], id="reasons-behind-a-slash"),
        pytest.param(["explain", "rule", "1"], ["1", "10", "11", "12", "13", "14"], id="rules"),
    ],
)
@pytest.mark.usefixtures("nowhere")
def test_names_that_no_cluster_has_are_offered_without_one(words, offered):
    assert names(words)[0] == offered


@pytest.mark.parametrize(
    "words",
    [["get", "claims", "-n", "m"], ["release", "--namespace", "m"], ["downgrade", "-n", "m"]],
    ids=" ".join,
)
def test_namespaces_are_offered(monkeypatch, words):
    monkeypatch.setattr(object_names, "list_object_names", lambda *_: ["default", "ml", "monitoring"])
    assert names(words)[0] == ["ml", "monitoring"]


@pytest.mark.parametrize(
    ("words", "asked", "offered"),
    [
        pytest.param(["explain", "job/tr"], "job", ["job/train"], id="behind-a-slash"),
        pytest.param(["explain", "deploy", ""], "deploy", ["train", "other"], id="a-short-name"),
        pytest.param(["explain", "rayclusters.ray.io", "o"], "rayclusters.ray.io", ["other"], id="a-custom-kind"),
        pytest.param(["reserve", "r", "--owner", "job/o"], "job", ["job/other"], id="an-owner"),
    ],
)
def test_names_of_workloads_of_any_kind_are_offered(monkeypatch, words, asked, offered):
    kinds = []

    def known(words, options):
        del options
        kinds.append(words)
        return ["train", "other"]

    monkeypatch.setattr("dra.cli.kubectl.resource_args.list_workload_names", known)
    assert (names(words)[0], kinds) == (offered, [asked])


@pytest.mark.parametrize("words", ["job", "jobs", "jobs.batch", "jobs.v1.batch"])
async def test_a_kind_is_found_by_every_name_that_kubectl_accepts(monkeypatch, words):
    server = ApiServer()
    kinds = {each.name: each for each in server.catalog}
    server.registry.create(Route(kinds["Namespace"]), {"metadata": {"name": "ml"}})
    container = {"name": "c", "image": "x"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"metadata": {"name": "train", "namespace": "ml"}, "spec": {"template": template}}
    server.registry.create(Route(kinds["Job"], namespace="ml"), job)

    @asynccontextmanager
    async def connect(_):
        transport = LocalTransport(server)
        yield Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)

    monkeypatch.setattr("dra.cli.kubectl.connection.connect", connect)
    assert await object_names._list_kind(ClusterFlags(), GroupResource.parse(words), "ml") == ["train"]


async def test_devices_are_named_by_driver_pool_and_device(monkeypatch):
    server = ApiServer()
    kind = next(each for each in server.catalog if each.name == "ResourceSlice")
    server.registry.create(Route(kind), offer("n1") | {"metadata": {"name": "n1-gpus"}})

    @asynccontextmanager
    async def connect(_):
        transport = LocalTransport(server)
        yield Connection(client=Client(transport, RateLimiter(1000.0, 1000)), transport=transport)

    monkeypatch.setattr("dra.cli.kubectl.connection.connect", connect)
    found = await object_names._list_names(ClusterFlags(), SLICES, None)
    assert found == ["gpu.example.com/n1/gpu-0", "gpu.example.com/n1/gpu-1"]
