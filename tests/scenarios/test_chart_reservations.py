"""What the chart installs for Reservations, taken from the API server as it stands and run: nothing is missing.

The controller's and the extender's container (arguments, configuration, Secret, service account), the certificates by
the commands of docs/how-to/scheduler-extender.md, and kube-scheduler's file as the notes of the release say it. Only
what a network does is played: the address of the Service is that of the pod.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.cluster import charts, prerequisites
from tests.cluster.cluster import Cluster
from tests.cluster.containers import Container
from tests.cluster.fake_nodes import FAKE
from tests.cluster.kubectl import kubectl
from tests.cluster.options import Options
from tests.scenarios import api as kubernetes
from tests.scenarios import installation, metrics
from tests.scenarios.api import Api
from tests.scenarios.eventually import eventually
from tests.scenarios.reservations.conftest import NODES as NAMES
from tests.scenarios.reservations.conftest import PROGRAM, ROOT
from tests.scenarios.reservations.test_manual import conditions, reaches, reservation, running, stranger, waits
from tests.scenarios.resources import EVENTS, NODES, RESERVATIONS
from tests.scenarios.target import Capability, Mode

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.needs(Capability.COMPONENTS)]

PAGE: Final = ROOT / "docs" / "how-to" / "scheduler-extender.md"
REFERENCE: Final = ROOT / "docs" / "reference" / "metrics.md"
VALUES: Final = {"reservations": {"enabled": True, "extender": {"replicas": 0}}}
"""No pods of the cluster's own: kwok's nodes would say that they run, and nothing would."""

OF_THE_SCHEDULER: Final = {"extender-ca.crt": "ca.crt"}
"""File on a control plane node → file that the page makes, where they differ."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of its own: kube-scheduler's file is written from what is installed."""
    if os.geteuid() or not prerequisites.may_mount():
        pytest.skip("a container's files are mounted: needs root, and to be allowed to")
    with Cluster(Options(nodes=0)) as found:
        found.nodes.add(list(NAMES))
        kubectl("taint", "nodes", "--all", f"{FAKE}-", kubeconfig=found.admin_kubeconfig)
        yield found


@pytest.fixture
def extender(cluster: Cluster, tmp_path: Path) -> Iterator[Container]:
    """What is installed, running, and asked by kube-scheduler."""
    admin = cluster.admin_kubeconfig
    installation.upgrade(admin, mode=Mode.ALONGSIDE, values=VALUES)
    (certificates, *_) = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    environment = os.environ | {"KUBECONFIG": str(admin)}
    subprocess.run(["/bin/sh", "-euc", certificates], cwd=tmp_path, env=environment, check=True, capture_output=True)

    network = f"127.{os.getpid() >> 8 & 127 | 64}.{os.getpid() & 255}"  # others may run at the same time
    containers = [
        Container(
            cluster.folder,
            admin=admin,
            namespace=installation.NAMESPACE,
            deployment=f"dra-reserve-{name}",
            program=PROGRAM,
            address=f"{network}.{number}",
        )
        for number, name in enumerate(("extender", "controller"), start=1)
    ]
    for each in containers:
        each.process.env = {**each.process.env, "PYTHONPATH": str(ROOT)}
        each.process.start(within=40)
    configure(cluster, containers[0], files=tmp_path)
    yield containers[0]
    for each in containers:
        assert each.process.stop() == 0, each.process.tail()
        assert "forbidden" not in each.process.log.read_text().lower()


def configure(cluster: Cluster, extender: Container, *, files: Path) -> None:
    """Give kube-scheduler the file that the notes of the release say."""
    admin = cluster.admin_kubeconfig
    notes = charts.helm("get", "notes", installation.RELEASE, f"--namespace={installation.NAMESPACE}", kubeconfig=admin)
    (told,) = re.findall(r"^  apiVersion: kubescheduler.*?(?=\n\n)", notes, re.MULTILINE | re.DOTALL)
    said: dict[str, Any] = yaml.safe_load(textwrap.dedent(told))
    (asked,) = said["extenders"]
    asked["urlPrefix"] = f"https://{extender.address}:{served(extender, admin)}"
    for field in ("certFile", "keyFile", "caFile"):
        name = Path(asked["tlsConfig"][field]).name
        asked["tlsConfig"][field] = str(files / OF_THE_SCHEDULER.get(name, name))
    path = cluster.folder.path / "scheduler.json"
    harness = json.loads(path.read_text())
    del said["clientConnection"]
    path.write_text(json.dumps(harness | said), encoding="utf-8")
    cluster.scheduler.restart()


def served(extender: Container, admin: Path) -> int:
    """Return the port to which the Service leads: as the notes say, without one in its address."""
    shown = kubectl(
        *("get", "service", "dra-reserve-extender", f"--namespace={installation.NAMESPACE}", "--output=json"),
        kubeconfig=admin,
    )
    service = json.loads(shown)["spec"]
    (port,) = service["ports"]
    assert port["port"] == 443
    pods = kubectl(
        *("get", "deployment", "dra-reserve-extender", f"--namespace={installation.NAMESPACE}", "--output=json"),
        kubeconfig=admin,
    )
    assert service["selector"].items() <= json.loads(pods)["spec"]["template"]["metadata"]["labels"].items()
    return extender.port(port["targetPort"])


async def test_what_the_chart_installs_places_a_reservation_and_gives_it_to_its_owner(
    cluster: Cluster, extender: Container
) -> None:
    async with kubernetes.connect(cluster.admin_kubeconfig) as api:
        await given_to_its_owner(api)
        await freed_for_others(api)
        await told_of_a_node(api)
    await eventually(partial(scraped, extender), saying="every metric of the reference is told, with what has happened")


def scraped(extender: Container) -> bool:
    text = extender.read("/metrics", port="metrics")
    (named,) = re.findall(r"^## Of the scheduler extender$(.*?)^## ", REFERENCE.read_text(), re.MULTILINE | re.DOTALL)
    names = re.findall(r"^\| `(\w+)`", named, re.MULTILINE)
    seen = metrics.parse(text)
    told = {series.partition("{")[0] for series in seen}
    assert [name for name in names if not {name, f"{name}_count"} & told] == []
    assert len(names) >= 7
    assert seen['dra_reserve_extender_binds_total{outcome="bound"}'] >= 3
    assert (seen["dra_reserve_extender_leading"], seen["dra_reserve_extender_doubts"]) == (1, 0)
    assert seen['dra_reserve_reservations{phase="Succeeded"}'] == 1
    assert {verb for verb in ("filter", "prioritize", "bind") if not seen.get(called(verb))} == set()
    assert [series for series in seen if 'code="403"' in series] == []
    return seen["dra_reserve_node_reservation_faults"] == 1


def called(verb: str) -> str:
    return f'dra_reserve_extender_call_seconds_count{{verb="{verb}"}}'


async def given_to_its_owner(api: Api) -> None:
    await api.create(reservation("once", cpu="60"))
    made = await reaches(api, "once", "Available", within=40)
    await running(api, 0)  # while its placeholder is there, the scheduler looks for room elsewhere
    await api.create(stranger("owner", cpu="60", app="once"), namespace="default")
    (owner,) = await running(api, 1)
    assert owner["spec"]["nodeName"] == made["status"]["nodeName"]
    assert (
        made["metadata"]["uid"] in owner["metadata"]["annotations"]["scheduling.koordinator.sh/reservation-allocated"]
    )
    done = await reaches(api, "once", "Succeeded")
    assert [each["name"] for each in done["status"]["currentOwners"]] == ["owner"]
    assert conditions(done)["Ready"] == ("False", "Succeeded")


async def freed_for_others(api: Api) -> None:
    """The scheduler is told to look again, by the right to touch pods; otherwise it would after five minutes."""
    await api.create(reservation("kept", cpu="60"))
    node = (await reaches(api, "kept", "Available"))["status"]["nodeName"]
    await api.create(stranger("patient", cpu="12", node=node), namespace="default")
    await waits(api, "patient", because="Insufficient cpu by node")
    await api.delete(RESERVATIONS, "kept")
    await running(api, 2)


async def told_of_a_node(api: Api) -> None:
    """An Event: the right to make them."""
    await api.patch(NODES, NAMES[0], {"metadata": {"annotations": {"node.koordinator.sh/reservation": "{"}}})

    async def told() -> bool:
        found = await api.all(EVENTS, namespace="default", fieldSelector=f"involvedObject.name={NAMES[0]}")
        return any("the last valid value stays in effect" in each["message"] for each in found)

    await eventually(told, saying="an Event on the node says that its annotation cannot be read")
