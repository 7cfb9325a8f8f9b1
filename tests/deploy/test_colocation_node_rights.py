"""Least rights of colocation on the node: the agent asks for all that it is granted, and for nothing else."""

import contextlib
import re
from pathlib import Path

import pytest
import yaml

from localplane.transport import LocalTransport
from tests.kubeletplugin.colocation.agent import NODE, Place, watching

FILE = Path(__file__).parents[2] / "deploy" / "colocation" / "node-rights.yaml"
PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<kind>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<part>[^/]+))?"
)
OF_THE_PLUGIN = {("list", "nodes", ""), ("watch", "nodes", "")}
"""Rights that deploy/kubelet-plugin gives and the agent uses, too."""


def granted():
    """Verb, kind and namespace of each right; of rights to one name, with the name."""
    for obj in yaml.safe_load_all(FILE.read_text()):
        for rule in obj.get("rules", []):
            (group,), (kind,) = rule["apiGroups"], rule["resources"]
            for verb in rule["verbs"]:
                (name,) = rule.get("resourceNames", [""])
                yield verb, f"{kind}.{group}".rstrip("."), "/".join(filter(None, (_namespace(obj), name)))


def _namespace(obj):
    return obj["metadata"].get("namespace", "")


class Recording(LocalTransport):
    """Writes down what each request would need of RBAC."""

    def __init__(self, server):
        super().__init__(server)
        self.used = set()
        self.selectors = {}

    def _record(self, request):
        found = PATH.fullmatch(request.path)
        collection = "watch" if request.query.get("watch") else "list"
        verb = {"PATCH": "patch", "GET": "get" if found["name"] else collection}[request.method]
        kind = "/".join(filter(None, (found["kind"], found["part"])))
        fields = request.query.get("fieldSelector", "")
        # A selector for one name is that name to the authorizer, but only rights to a name depend on it.
        name = fields.removeprefix("metadata.name=") if found["namespace"] else ""
        self.used.add(
            (verb, f"{kind}.{found['group'] or ''}".rstrip("."), "/".join(filter(None, (found["namespace"], name))))
        )
        self.selectors[kind] = fields

    async def send(self, request, /):
        self._record(request)
        return await super().send(request)

    @contextlib.asynccontextmanager
    async def stream(self, request, /):
        self._record(request)
        async with super().stream(request) as blocks:
            yield blocks


@pytest.fixture
async def transport(tmp_path):
    place = Place(tmp_path, transport=Recording)
    await place.define()
    await place.user.create("nodes", {"metadata": {"name": NODE}})
    await place.create_node_metric(aggregateDurationSeconds=20)
    place.machine.add(await place.create_pod("web"), milli=100)
    await place.configure({})
    async with watching(place):
        await place.seen(lambda informers: informers.node_metrics.objects and informers.pods.objects)
        await place.seen(lambda informers: informers.config_maps.objects)
        await place.steps(31)
        await place.agent._reporter.report()
        await place.seen(
            lambda _: {kind for verb, kind, _ in place.transport.used if verb == "watch"} >= {"pods", "nodes"}
        )
        assert "updateTime" in (await place.node_metric())["status"]
    return place.transport


async def test_the_agent_asks_for_what_it_is_granted_and_for_nothing_else(transport):
    assert transport.used == set(granted()) | OF_THE_PLUGIN


async def test_only_objects_of_the_own_node_are_asked_for(transport):
    assert transport.selectors["pods"] == f"spec.nodeName={NODE}"
    assert transport.selectors["nodes"] == transport.selectors["nodemetrics"] == f"metadata.name={NODE}"
