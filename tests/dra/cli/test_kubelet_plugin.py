import asyncio
import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dra.cli.main import COMMANDS, main
from dra.kube.clock import SYSTEM
from kubeletplugin.cdi import CdiSpecDirectory
from kubeletplugin.checkpoint import Checkpoint
from kubeletplugin.contract import ClaimIdentity, ContainerEdits, PreparedClaim, PreparedDevice
from localplane.https_server import serve_https
from localplane.server import ApiServer
from tests.dra.kube.virtual import seeded
from tests.kubeletplugin.kubelet import Kubelet, until
from tests.kubeletplugin.node import until_async
from tests.localplane.components import User

ROOT = Path(__file__).parents[3]
INVENTORY = ROOT / "examples/gpus/inventory-mixed.yaml"
DRIVER = "gpu.reserve.dra"
GPUS = ("--drivers", "gpu", "--inventory", f"simulated:{INVENTORY}", "--node-name", "n1")


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run the command where no cluster can be found by accident."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "NODE_NAME", "POD_UID"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: CliRunner().invoke(main, ["kubelet-plugin", *map(str, arguments)])


@pytest.fixture
def short_path():
    path = Path(tempfile.mkdtemp(prefix="kp-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def test_the_list_of_commands_says_what_each_command_says():
    for name, (_, text) in COMMANDS.items():
        assert main.commands[name].help.partition("\n\n")[0].replace("\n", " ").startswith(text.rstrip("."))


def test_help_imports_nothing_heavy():
    code = "import sys; from dra.cli.main import main; main(['kubelet-plugin', '--help'], standalone_mode=False);"
    code += "print(sorted({'grpc', 'aiohttp', 'kubernetes', 'msgspec', 'yaml', 'pydantic'} & sys.modules.keys()))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert shown.splitlines()[-1] == "[]"


def test_inspect_shows_a_device_a_line(run):
    shown = run("inspect", *GPUS)
    assert shown.exit_code == 0, shown.output
    head, *rows = shown.stdout.splitlines()
    assert head.split()[:4] == ["DRIVER", "POOL", "DEVICE", "HEALTH"]
    assert [row.split()[:3] for row in rows] == [[DRIVER, "n1", f"gpu-{i}"] for i in range(8)]
    assert "unhealthy (ecc: an uncorrectable memory error)" in rows[7]
    assert f"{DRIVER}/ecc:NoSchedule" in rows[7]


@pytest.mark.parametrize(
    ("form", "read"),
    [
        pytest.param("json", lambda text: json.loads(text)["items"], id="json"),
        pytest.param("yaml", lambda text: list(yaml.safe_load_all(text)), id="yaml"),
    ],
)
def test_inspect_writes_what_would_be_published(run, form, read):
    (found,) = read(run("inspect", *GPUS, "-o", form).stdout)
    assert (found["apiVersion"], found["kind"]) == ("resource.k8s.io/v1", "ResourceSlice")
    assert found["spec"]["nodeName"] == "n1"
    assert [device["name"] for device in found["spec"]["devices"]] == [f"gpu-{i}" for i in range(8)]


def test_inspect_shows_the_cpus_of_this_machine_and_leaves_nothing_behind(run):
    shown = run("inspect", "--drivers", "cpu", "-o", "json")
    assert shown.exit_code == 0, shown.output
    devices = [d for each in json.loads(shown.stdout)["items"] for d in each["spec"]["devices"]]
    assert 0 < len(devices) <= os.cpu_count()


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute", "none"])
def test_the_effect_of_a_failed_gpus_taint_can_be_chosen(run, effect):
    shown = run("inspect", *GPUS, "--gpu-taint-effect", effect).stdout
    assert (f"{DRIVER}/ecc:{effect}" in shown) is (effect != "none")
    assert shown.count(f"{DRIVER}/ecc") == (effect != "none")


def test_inspect_says_why_a_driver_offers_nothing(run, tmp_path):
    (tmp_path / "cpu_manager_state").write_text('{"policyName": "static"}')
    shown = run("inspect", "--drivers", "cpu", "--kubelet", str(tmp_path))
    assert shown.stdout.startswith(
        "No devices.\nDriver cpu.reserve.dra: no CPUs are allocated on this node: the kubelet allocates CPUs"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["inspect", "--drivers", "gpu,tpu"], "'gpu,tpu': there are cpu, gpu", id="driver"),
        pytest.param(["inspect", "--drivers", ","], "name one, or several", id="no-driver"),
        pytest.param(["inspect", "--drivers", "gpu", "--inventory", "dream"], "'dream': unknown", id="inventory"),
        pytest.param(
            ["inspect", "--drivers", "gpu", "--inventory", "simulated:/nowhere"], "/nowhere: No such file", id="file"
        ),
        pytest.param(["inspect", "--drivers", "cpu", "--reserved-cpus", "x"], "'x'", id="reserved-cpus"),
        pytest.param(["inspect", "--gpu-ignored-xids", "48,x"], "XIDs '48,x': 'x' is not a number", id="xids"),
        pytest.param([*GPUS], "no kubeconfig", id="no-cluster"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(run, arguments, expected):
    refused = run(*arguments)
    assert refused.exit_code == 1, refused.output
    assert expected in refused.stderr
    assert refused.stderr.startswith("Error: ")
    assert "Traceback" not in refused.output


def test_a_path_too_long_for_sockets_is_told_with_its_option(run, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    refused = run(*GPUS, "--kubeconfig", kubeconfig, "--plugins", f"/{'p' * 99}")
    assert refused.exit_code == 1
    assert "unix sockets allow 107; choose a directory with a shorter path: --plugins" in refused.stderr


@pytest.mark.parametrize("endpoint", ["8081", ":8081", "localhost:x"])
def test_an_endpoint_is_host_and_port(run, endpoint):
    refused = run(*GPUS, "--probes", endpoint)
    assert refused.exit_code == 2
    assert "use the form 127.0.0.1:8081" in refused.stderr


def test_a_bundle_has_what_is_there_and_says_what_is_not(run, short_path):
    own = short_path / "plugins" / DRIVER
    own.mkdir(parents=True)
    (own / "checkpoint.json").write_text("{broken")
    (own / "containers" / "c1").mkdir(parents=True)
    (own / "containers" / "c1" / "uid-1.cpus").write_text("2-3\n")
    (own / "hook.sh").write_text("#!/bin/sh")
    (short_path / "cdi").mkdir()
    (short_path / "cdi" / f"{DRIVER}-claim-1.json").write_text("{}")
    (short_path / "cdi" / "others.json").write_text("secret")
    folders = [f"--{name}={short_path / name}" for name in ("plugins", "registry", "cdi", "kubelet")]
    output = short_path / "bundle.tgz"
    made = run("gather", *GPUS, *folders, "-o", output)
    assert made.exit_code == 0, made.output
    assert str(output) in made.stdout
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    with tarfile.open(output) as archive:
        parts = {each.name.removeprefix("dra-reserve/"): archive.extractfile(each).read() for each in archive}
    assert parts[f"plugins/{DRIVER}/checkpoint.json"] == b"{broken"
    assert b"No such file" in parts[f"plugins/{DRIVER}/checkpoint.json.previous"]
    assert parts[f"plugins/{DRIVER}/hook.sh"] == b"#!/bin/sh"
    assert json.loads(parts[f"plugins/{DRIVER}/containers.json"]) == {"c1/uid-1.cpus": "2-3\n"}
    assert json.loads(parts[f"plugins/{DRIVER}/failures.json"]) == {}
    assert parts[f"cdi/{DRIVER}-claim-1.json"] == b"{}"
    assert "cdi/others.json" not in parts
    assert b"no kubeconfig" in parts["resourceslices.json"]
    assert b"gpu-7" in parts["inspect.txt"]
    assert "grpcio" in json.loads(parts["versions.json"])["packages"]
    again = run("gather", *GPUS, *folders, "-o", output)
    assert again.exit_code == 1
    assert "File exists" in again.stderr


CLAIM = ClaimIdentity(key=("ml", "train"), uid="u-1")


@pytest.fixture
def orphan(short_path):
    """A node on which a claim has a device, and the options that name its folders."""
    own = short_path / "plugins" / DRIVER
    own.mkdir(parents=True, mode=0o700)
    device = PreparedDevice(requests=("r",), pool="n1", device="gpu-3", edits=ContainerEdits(env=("A=b",)))
    preparation = PreparedClaim(claim=CLAIM, driver=DRIVER, devices=(device,))
    Checkpoint(own / "checkpoint.json", PreparedClaim).write((preparation,))
    CdiSpecDirectory(short_path / "cdi", driver=DRIVER).write(preparation)
    return [f"--{name}={short_path / name}" for name in ("plugins", "cdi")]


def pods(path, *users, node="n1"):
    items = [
        {
            "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
            "spec": {"nodeName": node, "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]},
            "status": {"phase": "Running"},
        }
        for name, claim in (("other", "other"), *users)
    ]
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return f"--pods={path}"


def left(folder):
    """The claims in the checkpoint, and the CDI files."""
    known = Checkpoint(folder / "plugins" / DRIVER / "checkpoint.json", PreparedClaim).read()
    return [each.claim for each in known], len(list((folder / "cdi").glob("*.json")))


def test_what_nobody_uses_is_released(run, short_path, orphan):
    shown = run("release", "--claim-uid=u-1", "--node-name=n1", *orphan, pods(short_path / "pods.json"))
    assert (shown.exit_code, shown.stdout) == (0, f"{CLAIM}: n1/gpu-3 of driver {DRIVER}: released.\n")
    assert left(short_path) == ([], 0)
    again = run("release", "--claim-uid=u-1", "--node-name=n1", *orphan, pods(short_path / "pods.json"))
    assert again.stderr == "Error: claim with uid u-1: not prepared on this node. Prepared claims: none\n"


def test_what_a_pod_uses_is_released_by_force_only(run, short_path, orphan):
    ask = ("release", "--claim-uid=u-1", "--node-name=n1", *orphan, pods(short_path / "p", ("train-0", "train")))
    refused = run(*ask)
    assert refused.exit_code == 1
    assert f"{CLAIM}: is used on node n1 by ml/train-0 (Running). Nothing was released" in refused.stderr
    assert left(short_path) == ([CLAIM], 1)
    forced = run(*ask, "--force")
    assert forced.exit_code == 0, forced.output
    assert left(short_path) == ([], 0)
    journal = short_path / "plugins" / DRIVER / "releases.jsonl"
    assert "by force: is used on node n1 by ml/train-0" in json.loads(journal.read_text())["because"]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param(["--node-name=n2"], "not the complete list of pods on node n2", id="list-of-another-node"),
        pytest.param(["--node-name=n1", "--pod-uid=x"], "own pod is missing", id="list-of-a-namespace"),
        pytest.param(["--node-name=n1", "--pods=/dev/null"], "not the output of kubectl get pods", id="no-list"),
    ],
)
def test_in_doubt_nothing_is_released(run, short_path, orphan, more, expected):
    refused = run("release", "--claim-uid=u-1", *orphan, pods(short_path / "pods.json"), *more)
    assert refused.exit_code == 1
    assert expected in refused.stderr
    assert "Nothing was released. Pass the pods: kubectl get pods -A --field-selector spec.nodeName=n" in refused.stderr
    assert left(short_path) == ([CLAIM], 1)


def test_without_a_list_and_without_a_cluster_nothing_is_released(run, short_path, orphan):
    refused = run("release", "--claim-uid=u-1", "--node-name=n1", *orphan)
    assert "the pods that use it on node n1 are unknown: API server: no kubeconfig" in refused.stderr
    assert left(short_path) == ([CLAIM], 1)


def test_a_claim_that_has_nothing_here_is_told_with_those_that_have(run, orphan):
    refused = run("release", "--claim-uid=u-2", *orphan)
    assert refused.stderr == (
        f"Error: claim with uid u-2: not prepared on this node. Prepared claims: {CLAIM}: n1/gpu-3 of driver {DRIVER}\n"
    )


@contextlib.asynccontextmanager
async def process(folder, kubeconfig, *arguments):
    """The command as a process; killed at the end if need be."""
    folders = [f"--{name}={folder / name}" for name in ("plugins", "registry", "cdi", "kubelet")]
    found = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dra.cli.main", "kubelet-plugin", *GPUS, *folders, f"--kubeconfig={kubeconfig}",
        *arguments, cwd=ROOT, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield found
    finally:
        if found.returncode is None:
            found.kill()
            await found.wait()


async def test_the_command_serves_a_kubelet_until_it_is_told_to_stop(short_path):
    server = ApiServer(clock=SYSTEM, random=seeded(1))
    user = User(server)
    await user.create("nodes", {"metadata": {"name": "n1"}})
    request = {"name": "r", "exactly": {"deviceClassName": DRIVER}}
    await user.create("resourceclaims", {"metadata": {"name": "train"}, "spec": {"devices": {"requests": [request]}}})
    result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-3"}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    claim = await user.patch("resourceclaims", "train", status, subresource="status")
    registry = short_path / "registry"
    registry.mkdir()
    async with (
        serve_https(server.handle, folder=short_path) as endpoint,
        process(short_path, endpoint.kubeconfig, "--probes=127.0.0.1:0") as plugin,
        Kubelet(registry) as kubelet,
    ):
        await until(kubelet.sockets, within=20, saying="a socket")
        connection = await kubelet.register(DRIVER)
        (found,) = await until_async(lambda: user.list("resourceslices"))
        assert len(found["spec"]["devices"]) == 8
        ((device,),) = (await connection.prepare(claim)).values()
        assert device.device_name == "gpu-3"
        (file,) = (short_path / "cdi").iterdir()
        assert claim["metadata"]["uid"] in file.name
        plugin.send_signal(signal.SIGTERM)
        told = (await asyncio.wait_for(plugin.stderr.read(), 10)).decode().splitlines()
        assert await plugin.wait() == 0
    lines = [json.loads(line) for line in told]
    assert lines[-1]["message"] == "stopped"
    assert any(line["message"].startswith(f"driver {DRIVER}: registered") for line in lines)
    assert list(registry.iterdir()) == []
    left = {path.name for path in (short_path / "plugins" / DRIVER).iterdir()}
    assert left - {"checkpoint.json.previous"} == {"checkpoint.json", "device-names.json"}


async def test_a_release_asks_the_api_server_and_the_running_plugin_takes_note(short_path, orphan):
    server = ApiServer(clock=SYSTEM, random=seeded(1))
    user = User(server)
    await user.create("nodes", {"metadata": {"name": "n1"}})
    await user.create("namespaces", {"metadata": {"name": "ml"}})
    using = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"}
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "train"}]}
    await user.create("pods", {"metadata": {"name": "other"}, "spec": using})
    await user.create("pods", {"metadata": {"name": "user"}, "spec": using | claims}, namespace="ml")
    (short_path / "registry").mkdir()

    async def release(kubeconfig):
        found = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dra.cli.main", "kubelet-plugin", "release", "--claim-uid=u-1", "--node-name=n1",
            *orphan, f"--kubeconfig={kubeconfig}", cwd=ROOT,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        return (await asyncio.wait_for(found.communicate(), 30))[0].decode()

    async with (
        serve_https(server.handle, folder=short_path) as endpoint,
        process(short_path, endpoint.kubeconfig) as plugin,
        Kubelet(short_path / "registry") as kubelet,
    ):
        await until(kubelet.sockets, within=20, saying="a socket")
        await kubelet.register(DRIVER)
        assert "is used on node n1 by ml/user (Pending)" in await release(endpoint.kubeconfig)
        await user.patch("pods", "user", {"status": {"phase": "Failed"}}, namespace="ml", subresource="status")
        assert await release(endpoint.kubeconfig) == f"{CLAIM}: n1/gpu-3 of driver {DRIVER}: released.\n"
        async with asyncio.timeout(15):
            told = ""
            while "was released manually" not in told:
                told = (await plugin.stderr.readline()).decode()
    assert f"{CLAIM}: was released manually: " in json.loads(told)["message"]
    assert left(short_path) == ([], 0)
