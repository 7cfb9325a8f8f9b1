"""A real API server tells the descheduler the replicas of other kinds, and a dry run the descheduler's configuration.

Nothing runs here but the API server: the descheduler's account reads, with the permissions that are installed.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import connect
from dra.cli.kubectl.descheduling.configuration_reader import read_configuration
from dra.engine.migration.pod_index import workload_key
from dra.kube.clock import SYSTEM
from dra.model.meta import OwnerReference
from dra.requests.workload_replicas import WorkloadReplicas
from tests.cluster import kubeconfig
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import KubectlError, kubectl
from tests.cluster.options import Options
from tests.cluster.run_folder import RunFolder
from tests.cluster.waiting import until
from tests.scenarios import installation
from tests.scenarios.target import Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from dra.cli.kubectl.connection import Connection

ACCOUNT: Final = "dra-reserve-descheduler"
THINGS: Final = "things.example.com"
ROLE: Final = "dra-reserve-descheduler-scale"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def admin() -> Iterator[Path]:
    """The kubeconfig of a cluster in which deploy/descheduler is installed, and two kinds of others."""
    if Place.chosen() is not Place.LOCAL:
        pytest.skip("installs definitions and roles: a cluster of its own")
    with Cluster(Options(nodes=0)) as cluster:
        path = cluster.admin_kubeconfig
        kubectl("create", "namespace", installation.NAMESPACE, kubeconfig=path)
        wanted = kubectl("kustomize", str(installation.DEPLOY / "descheduler"), kubeconfig=path)
        kubectl("apply", "--filename=-", kubeconfig=path, stdin=wanted)
        for group, plural, kind in (("apps.kruise.io", "clonesets", "CloneSet"), ("example.com", "things", "Thing")):
            _apply(path, _definition(group, plural, kind))
            name = f"customresourcedefinition/{plural}.{group}"
            kubectl("wait", name, "--for=condition=Established", "--timeout=30s", kubeconfig=path)
        yield path


@pytest.fixture
async def descheduler(admin: Path) -> AsyncIterator[Connection]:
    """The API as the descheduler's account reaches it."""
    with RunFolder() as folder:
        path = folder.path / f"{ACCOUNT}.kubeconfig"
        kubeconfig.for_service_account(path, admin=admin, namespace=installation.NAMESPACE, name=ACCOUNT)
        async with _connected(path) as connection:
            yield connection


@asynccontextmanager
async def _connected(path: Path) -> AsyncIterator[Connection]:
    async with connect(ClusterFlags(kubeconfig=str(path))) as connection:
        yield connection


def _definition(group: str, plural: str, kind: str) -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema, "subresources": {"scale": scale}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _apply(admin: Path, content: Json) -> None:
    kubectl("apply", "--filename=-", kubeconfig=admin, stdin=yaml.safe_dump(content))


def _workload(admin: Path, kind: str, group: str, name: str, **spec: int) -> OwnerReference:
    """Create a workload; return the reference that its pods would have."""
    version = f"{group}/v1alpha1"
    _apply(
        admin,
        {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec},
    )
    resource = f"{kind.lower()}s.{group}"
    uid = kubectl("get", resource, name, "--namespace=default", "--output=jsonpath={.metadata.uid}", kubeconfig=admin)
    return OwnerReference(api_version=version, kind=kind, name=name, uid=uid, controller=True)


async def test_the_scale_of_a_clone_set_tells_its_replicas(admin, descheduler, caplog):
    seven = _workload(admin, "CloneSet", "apps.kruise.io", "seven", replicas=7)
    none = _workload(admin, "CloneSet", "apps.kruise.io", "none", replicas=0)
    silent = _workload(admin, "CloneSet", "apps.kruise.io", "silent")
    replicas = WorkloadReplicas(descheduler.client, clock=SYSTEM)
    known = {workload_key(seven, namespace="default"): 7, workload_key(none, namespace="default"): 0}
    assert await replicas.read([(seven, "default"), (none, "default")]) == known
    assert caplog.text == ""
    assert await replicas.read([(silent, "default")]) == known, "the server does not know its replicas"


async def test_the_scale_of_any_other_kind_takes_a_permission(admin, descheduler, caplog):
    thing = _workload(admin, "Thing", "example.com", "three", replicas=3)
    assert await WorkloadReplicas(descheduler.client, clock=SYSTEM).read([(thing, "default")]) == {}
    assert "of each Thing.example.com one pod may be away at a time, since its replicas are unknown" in caplog.text
    assert "things/scale" in caplog.text
    page = (installation.DEPLOY.parent / "docs/how-to/migrations.md").read_text(encoding="utf-8")
    commands = page.partition(f"kubectl create clusterrole {ROLE}")
    script = "".join(commands[1:]).partition("```")[0].replace("\\\n", " ")
    for line in script.strip().splitlines():
        kubectl(*line.split()[1:], kubeconfig=admin)
    account = f"--as=system:serviceaccount:{installation.NAMESPACE}:{ACCOUNT}"
    question = ("auth", "can-i", "get", f"{THINGS}/three", "--subresource=scale", "--namespace=default", account)

    def is_allowed() -> bool:
        try:
            return kubectl(*question, kubeconfig=admin).strip() == "yes"
        except KubectlError:  # the exit code of "no"
            return False

    until(is_allowed, within=30, saying="the account may get the scale")
    assert await WorkloadReplicas(descheduler.client, clock=SYSTEM).read([(thing, "default")]) == {
        workload_key(thing, namespace="default"): 3
    }


async def test_a_dry_run_finds_the_configuration_of_the_installation(admin):
    async with _connected(admin) as connection:
        found = await read_configuration(connection, installation.NAMESPACE)
    assert "limits and rules are those of configmap dra-reserve/descheduler-config-" in found.text
    assert found.args.max_migrating_per_node == 2
