"""A report has nothing secret, wherever a cluster has secrets."""

import json
import re

import pytest

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.printers import OutputFormat, format_structured
from dra.cli.kubectl.verify.cluster_facts import NOT_READABLE, read_facts
from dra.cli.kubectl.verify.command import report_data
from dra.cli.kubectl.verify.trial import Step, TrialResult
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from dra.kube.transport import Response
from localplane import status_errors
from localplane.transport import LocalTransport

SECRET = "acme-prod-host7.internal"  # noqa: S105 - what must not be in a report
LEAKS = (SECRET, "acme", "internal", "token", "eyJ")


def node(name):
    info = {
        "kubeletVersion": f"v1.34.1-{SECRET}",
        "containerRuntimeVersion": f"{SECRET}://1.0.0",
        "architecture": SECRET,
        "osImage": SECRET,
        "kernelVersion": SECRET,
        "machineID": SECRET,
    }
    metadata = {"name": name, "labels": {SECRET: SECRET}, "annotations": {"token": "eyJhbGciOi"}}
    return {"metadata": metadata, "spec": {"providerID": f"gce://{SECRET}/zone/{name}"}, "status": {"nodeInfo": info}}


def named(name, **rest):
    return {"metadata": {"name": name, "namespace": SECRET, "uid": SECRET}, **rest}


DEPLOYMENT = named(
    SECRET,
    spec={"replicas": 2, "template": {"metadata": {"labels": {"app.kubernetes.io/component": SECRET}}}},
    status={"readyReplicas": 1},
)
LEASE = named(SECRET, spec={"holderIdentity": SECRET, "renewTime": "2026-11-28T12:00:00.000000Z"})
SLICE = named(SECRET, spec={"driver": f"gpu.{SECRET}", "nodeName": SECRET, "devices": [{"name": SECRET}]})
METRICS = f'kubernetes_feature_enabled{{name="{SECRET}",stage=""}} 1\nkubernetes_feature_enabled{{name="acme"}} 1\n'
GROUP = {"versions": [{"version": "v9acme", "groupVersion": SECRET}], "preferredVersion": {"version": "v9acme"}}


class TalkativeServer:
    """A server that has the name of its company in every text."""

    def __init__(self, *, refuses=""):
        self._refuses = refuses

    @staticmethod
    def _answer(path):
        lists = {"nodes": [node(SECRET), node(f"2.{SECRET}")], "resourceslices": [SLICE], "deployments": [DEPLOYMENT]}
        if path == "/version":
            return {"gitVersion": f"v1.34.1-{SECRET}", "major": "1", "minor": "34", "platform": SECRET}
        if (last := path.rpartition("/")[2]) in lists:
            return {"metadata": {}, "items": lists[last]}
        if "/leases/" in path:
            return LEASE
        if path.count("/") == 2:
            return GROUP
        return {"resources": [{"name": "podgroups", "kind": SECRET, "namespaced": True}], "groupVersion": SECRET}

    async def handle(self, request):
        path = request.path.partition("?")[0]
        if self._refuses and self._refuses in path:
            return status_errors.StatusError(403, "Forbidden", f"{SECRET} may not read {path}").response
        if path == "/metrics":
            return Response(200, {"content-type": "text/plain"}, METRICS.encode())
        return Response(200, {"content-type": "application/json"}, json.dumps(self._answer(path)).encode())


async def facts_of(server):
    transport = LocalTransport(server)
    return await read_facts(Connection(client=Client(transport, RateLimiter(1e6, 1e6)), transport=transport))


@pytest.mark.parametrize("refuses", ["", "/nodes", "/resourceslices", "/deployments", "/leases/", "/metrics"])
async def test_no_text_of_the_cluster_is_in_a_report(refuses):
    facts = await facts_of(TalkativeServer(refuses=refuses))
    report = format_structured(report_data(facts, TrialResult(seconds={Step.POD_CREATED: 0.5})), OutputFormat.YAML)
    assert [leak for leak in LEAKS if leak in report.lower()] == []
    assert not re.search(r"[a-z0-9-]+\.(?:internal|example|corp|local)\b", report)


async def test_what_is_told_of_such_a_cluster():
    facts = await facts_of(TalkativeServer())
    assert facts["kubernetes"]["version"] == "v1.34.1"
    assert facts["nodes"] == {
        "number": 2,
        "kubelets": {"v1.34.1": 2},
        "runtimes": {"other": 2},
        "architectures": {"other": 2},
        "providers": {"gce": 2},
    }
    assert facts["devices"] == {"other": 1}
    assert facts["dra-reserve"]["components"] == [{"component": "other", "ready": 1, "desired": 2}]


async def test_what_may_not_be_read_is_named_without_the_reason():
    facts = await facts_of(TalkativeServer(refuses="/nodes"))
    assert facts["nodes"] == NOT_READABLE
