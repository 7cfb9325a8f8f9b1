"""docs/how-to/release-from-your-controller.md: its snippets and its example run, with the rights that are shipped.

With the feature off, which is a cluster without our controller, they do nothing, and no harm.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from kubernetes import client, config

from tests.cluster import binaries, kubeconfig
from tests.cluster.kubectl import kubectl
from tests.cluster.processes import Process
from tests.scenarios import accounts, objects, steps
from tests.scenarios.claims import entries, listed, revision
from tests.scenarios.conftest import ALONE, StartController
from tests.scenarios.eventually import eventually
from tests.scenarios.namespaces import Namespace
from tests.scenarios.resources import CLAIMS, PODS, Resource
from tests.scenarios.target import Capability, Mode, Target

pytestmark = [pytest.mark.modes(Mode.REPLACE), pytest.mark.needs(Capability.RIGHTS)]

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = ROOT / "examples" / "foreign-controller"
PAGE: Final = ROOT / "docs" / "how-to" / "release-from-your-controller.md"
CREWS: Final = Resource("example.com/v1", "Crew", "crews")
ACCOUNT: Final = "crew-operator"

MAIN: Final = """package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"release.example.com/release"
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err == nil {
		err = release.Release(
			context.Background(), kubernetes.NewForConfigOrDie(config), os.Args[2], os.Args[3], types.UID(os.Args[4]))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
"""

Release = Callable[[Path, str, str, str], None]


def snippet(language: str) -> str:
    """Return the first snippet of the page in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def in_python(path: Path, namespace: str, claim: str, uid: str) -> None:
    """Run the snippet of the page."""
    within: dict[str, Any] = {}
    exec(compile(snippet("python"), str(PAGE), "exec"), within)  # noqa: S102 it is ours
    with config.new_client_from_config(str(path)) as connection:
        within["release"](client.ResourceV1Api(connection), namespace, claim, uid)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The snippet in Go, compiled against the client-go of the newest control plane, from modules that are here."""
    if shutil.which("go") is None:
        pytest.skip("no Go")
    folder = tmp_path_factory.mktemp("snippet")
    modules = (binaries.CONTROLPLANE / "go.mod").read_text(encoding="utf-8")
    (folder / "go.mod").write_text(re.sub(r"(?m)^module .*$", "module release.example.com", modules), encoding="utf-8")
    shutil.copy(binaries.CONTROLPLANE / "go.sum", folder / "go.sum")
    (folder / "release").mkdir()
    (folder / "release" / "release.go").write_text(snippet("go"), encoding="utf-8")
    (folder / "main.go").write_text(MAIN, encoding="utf-8")
    env = os.environ | {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "CGO_ENABLED": "0"}
    built = subprocess.run(
        ["go", "build", "-o", "snippet", "."],  # noqa: S607
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "module lookup disabled" in built.stderr:
        pytest.skip("the Go modules are not here; they are where the control plane was built")
    assert built.returncode == 0, built.stderr
    return folder / "snippet"


@pytest.fixture(params=["python", "go"])
def release(request: pytest.FixtureRequest) -> Release:
    """One of the snippets."""
    if request.param == "python":
        return in_python
    binary: Path = request.getfixturevalue("program")

    def in_go(path: Path, namespace: str, claim: str, uid: str) -> None:
        done = subprocess.run([binary, path, namespace, claim, uid], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return in_go


@pytest.fixture
def crews(target: Target) -> Iterator[None]:
    """The kind of the example, and the rights that it is granted."""
    files = (f"--filename={EXAMPLE / 'crd.yaml'}", f"--filename={EXAMPLE / 'rights.yaml'}")
    kubectl("apply", *files, kubeconfig=target.admin)
    kubectl("wait", "--for=condition=Established", "crd/crews.example.com", kubeconfig=target.admin)
    yield
    kubectl("delete", *files, kubeconfig=target.admin)


@pytest.fixture
async def operator_rights(target: Target, crews: None, namespace: Namespace) -> Path:
    """A kubeconfig of the example's service account."""
    del crews
    path = target.folder.path / f"{namespace.name}-{ACCOUNT}.kubeconfig"
    found = await asyncio.to_thread(
        kubeconfig.for_service_account, path, admin=target.admin, namespace="default", name=ACCOUNT
    )
    async with accounts.acting(found, namespace):
        return found


@dataclass
class Crew:
    """A crew of the example: its claim, and a pod that uses it."""

    namespace: Namespace
    uid: str

    @classmethod
    async def of(cls, namespace: Namespace) -> Crew:
        """Make what examples/foreign-controller/crew.yaml makes, on fake nodes."""
        devices = await namespace.offer_devices()
        found = {}
        for obj in yaml.safe_load_all((EXAMPLE / "crew.yaml").read_text(encoding="utf-8")):
            if obj["kind"] == CREWS.kind:
                found = await namespace.api.request("POST", CREWS.path(namespace=namespace.name), obj)
                continue
            if obj["kind"] == CLAIMS.kind:
                obj["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = devices
            else:
                obj["spec"] |= objects.ON_SOUND_NODES
            await namespace.create(obj)
        await steps.pods_run(namespace, "llm-0")
        return cls(namespace, found["metadata"]["uid"])

    async def done(self) -> None:
        """Say that no pods will come any more."""
        await self.namespace.patch(CREWS, "llm", {"spec": {"done": True}})


async def test_a_snippet_releases_the_claim_with_the_shipped_rights(
    namespace: Namespace, operator_rights: Path, start_controller: StartController, release: Release
) -> None:
    await start_controller(configuration=ALONE)
    crew = await Crew.of(namespace)
    await steps.claim_is(namespace, "llm", lambda claim: listed(claim, "crews"), saying="it is reserved for the crew")
    for _ in range(2):
        await asyncio.to_thread(release, operator_rights, namespace.name, "llm", crew.uid)
    await steps.told(namespace, "llm", "OwnerReleased")
    await steps.end_pods(namespace, "llm-0")
    await steps.freed(namespace, "llm")


async def test_with_the_feature_off_a_snippet_changes_nothing(
    namespace: Namespace, operator_rights: Path, release: Release
) -> None:
    crew = await Crew.of(namespace)
    await namespace.create(objects.claim("unallocated", device_class="any"))
    before = {claim["metadata"]["name"]: revision(claim) for claim in await namespace.all(CLAIMS)}
    assert [each["resource"] for each in entries(await namespace.get(CLAIMS, "llm"))] == ["pods"]
    for claim in ("llm", "unallocated", "missing"):
        await asyncio.to_thread(release, operator_rights, namespace.name, claim, crew.uid)
    assert {claim["metadata"]["name"]: revision(claim) for claim in await namespace.all(CLAIMS)} == before


@pytest.fixture
async def operator(target: Target, namespace: Namespace, operator_rights: Path) -> AsyncIterator[Process]:
    """The example, run as its page says."""
    command = [sys.executable, "-m", "kopf", "run", "--standalone", f"--namespace={namespace.name}"]
    process = target.folder.process(
        f"{namespace.name}-operator",
        ["env", f"KUBECONFIG={operator_rights}", *command, str(EXAMPLE / "operator.py")],
    )
    process.spawn()
    yield process
    process.kill()


async def test_the_example_releases_its_claim(
    namespace: Namespace, start_controller: StartController, operator: Process
) -> None:
    await start_controller(configuration=ALONE)
    crew = await Crew.of(namespace)
    await steps.claim_is(namespace, "llm", lambda claim: listed(claim, "crews"), saying="it is reserved for the crew")
    await crew.done()
    await eventually(lambda: _said(operator, "still run"), saying="it waits for its pod")
    await steps.end_pods(namespace, "llm-0")
    await steps.freed(namespace, "llm")
    await steps.told(namespace, "llm", "OwnerReleased")
    assert "Traceback" not in operator.log.read_text()


async def test_the_example_does_nothing_with_the_feature_off(namespace: Namespace, operator: Process) -> None:
    crew = await Crew.of(namespace)
    await steps.end_pods(namespace, "llm-0")
    await eventually(
        lambda: namespace.get(PODS, "llm-0"), until=lambda pod: pod["status"]["phase"] == "Succeeded", saying="it ends"
    )
    before = revision(await namespace.get(CLAIMS, "llm"))
    await crew.done()
    await eventually(lambda: _said(operator, "claim llm is released"), saying="it has tried")
    assert revision(await namespace.get(CLAIMS, "llm")) == before
    assert "Traceback" not in operator.log.read_text()


async def _said(process: Process, text: str) -> bool:
    process.raise_if_dead()
    return text in process.log.read_text()
