"""What the real kubectl needs the structure of the kinds for: explain, apply, diff, patches, validation, dry runs."""

import asyncio
import json
import os
import shutil

import pytest

from localplane.https_server import serve_https
from localplane.server import ApiServer

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "a", "image": "one"}, {"name": "b", "image": "two"}]},
        },
    },
}
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c"},
    "spec": {
        "reservedFor": {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "1"},
        "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]},
    },
}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A widget of ours.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer", "description": "How large it is."}},
                            }
                        },
                    }
                },
            }
        ],
    },
}
WIDGET = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}


class Kubectl:
    """Runs kubectl against one server."""

    def __init__(self, kubeconfig, cache):
        self._environment = os.environ | {"KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(cache)}

    async def __call__(self, *arguments, stdin=None, fails=False):
        """Return what it printed, both streams; `fails` is whether it must."""
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
        )
        output, _ = await asyncio.wait_for(process.communicate(json.dumps(stdin).encode() if stdin else b""), 30)
        text = output.decode()
        assert bool(process.returncode) == fails, text
        return text

    async def get(self, *arguments):
        return json.loads(await self("get", *arguments, "--output=json", "--show-managed-fields"))


@pytest.fixture
async def kubectl(tmp_path):
    async with serve_https(ApiServer().handle, folder=tmp_path) as endpoint:
        yield Kubectl(endpoint.kubeconfig, tmp_path / "cache")


async def test_explain_shows_types_and_texts(kubectl):
    text = await kubectl("explain", "pods.spec.containers")
    assert "FIELD: containers <[]Container>" in text
    assert "List of containers belonging to the pod." in text
    assert "imagePullPolicy\t<string>" in text

    recursive = await kubectl("explain", "resourceclaims", "--recursive")
    assert "reservedFor\t<ResourceClaimConsumerReference>" in recursive
    assert "deviceClassName\t<string> -required-" in recursive


async def test_explain_knows_custom_kinds(kubectl):
    await kubectl("apply", "--filename=-", stdin=WIDGETS)

    text = await kubectl("explain", "widgets.spec")

    assert "size\t<integer>" in text
    assert "How large it is." in text


async def test_apply_creates_changes_and_removes(kubectl):
    assert "deployment.apps/web created" in await kubectl("apply", "--filename=-", stdin=DEPLOYMENT)
    assert "deployment.apps/web unchanged" in await kubectl("apply", "--filename=-", stdin=DEPLOYMENT)
    changed = json.loads(json.dumps(DEPLOYMENT))
    changed["spec"]["template"]["spec"]["containers"] = [{"name": "b", "image": "three"}]
    assert "deployment.apps/web configured" in await kubectl("apply", "--filename=-", stdin=changed)

    containers = (await kubectl.get("deployment", "web"))["spec"]["template"]["spec"]["containers"]

    assert [(each["name"], each["image"]) for each in containers] == [("b", "three")]


async def test_diff_and_dry_run_show_and_change_nothing(kubectl):
    await kubectl("apply", "--filename=-", stdin=DEPLOYMENT)
    changed = json.loads(json.dumps(DEPLOYMENT))
    changed["spec"]["replicas"] = 5

    text = await kubectl("diff", "--filename=-", stdin=changed, fails=True)
    assert "-  replicas: 2" in text
    assert "+  replicas: 5" in text
    assert "configured (server dry run)" in await kubectl("apply", "--dry-run=server", "--filename=-", stdin=changed)
    assert (await kubectl.get("deployment", "web"))["spec"]["replicas"] == 2


async def test_server_side_apply_owns_and_objects(kubectl):
    apply = ("apply", "--server-side", "--filename=-")
    assert "deployment.apps/web serverside-applied" in await kubectl(*apply, stdin=DEPLOYMENT)
    changed = json.loads(json.dumps(DEPLOYMENT))
    changed["spec"]["replicas"] = 5

    refused = await kubectl(*apply, "--field-manager=other", stdin=changed, fails=True)
    assert 'conflict with "kubectl": .spec.replicas' in refused
    await kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=changed)

    found = await kubectl.get("deployment", "web")
    assert found["spec"]["replicas"] == 5
    assert [each["manager"] for each in found["metadata"]["managedFields"]] == ["kubectl", "other"]


async def test_apply_may_become_server_side_apply(kubectl):
    await kubectl("apply", "--filename=-", stdin=DEPLOYMENT)
    changed = json.loads(json.dumps(DEPLOYMENT))
    changed["spec"]["replicas"] = 5

    assert "serverside-applied" in await kubectl("apply", "--server-side", "--filename=-", stdin=changed)
    assert (await kubectl.get("deployment", "web"))["spec"]["replicas"] == 5


async def test_unknown_fields_are_refused_or_warned_of(kubectl):
    wrong = json.loads(json.dumps(DEPLOYMENT))
    wrong["spec"]["replica"] = 1

    assert 'strict decoding error: unknown field "spec.replica"' in await kubectl(
        "create", "--filename=-", stdin=wrong, fails=True
    )
    warned = await kubectl("create", "--validate=warn", "--filename=-", stdin=wrong)
    assert 'Warning: unknown field "spec.replica"' in warned
    assert "deployment.apps/web created" in warned


async def test_the_fields_of_the_kep_are_fields(kubectl):
    await kubectl("apply", "--filename=-", stdin=CLAIM)

    assert (await kubectl.get("resourceclaim", "c"))["spec"]["reservedFor"]["name"] == "train"


async def test_patches_of_all_types_and_their_short_hands(kubectl):
    await kubectl("apply", "--filename=-", stdin=DEPLOYMENT)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "patched"}]}}}}

    await kubectl("patch", "deployment", "web", "--type=strategic", f"--patch={json.dumps(patch)}")
    await kubectl("patch", "deployment", "web", "--type=merge", '--patch={"spec":{"replicas":3}}')
    await kubectl("patch", "deployment", "web", "--type=json", '--patch=[{"op":"remove","path":"/spec/replicas"}]')
    await kubectl("label", "deployment", "web", "tier=front")
    await kubectl("annotate", "deployment", "web", "note=x")
    await kubectl("set", "image", "deployment/web", "a=set")

    found = await kubectl.get("deployment", "web")
    containers = found["spec"]["template"]["spec"]["containers"]
    assert [(each["name"], each["image"]) for each in containers] == [("a", "set"), ("b", "patched")]
    assert found["metadata"]["labels"] == {"tier": "front"}
    assert found["metadata"]["annotations"]["note"] == "x"


async def test_custom_objects_are_applied_both_ways(kubectl):
    await kubectl("apply", "--filename=-", stdin=WIDGETS)
    await kubectl("apply", "--filename=-", stdin=WIDGET)
    larger = WIDGET | {"spec": {"size": 2}}

    assert "widget.example.com/w configured" in await kubectl("apply", "--filename=-", stdin=larger)
    assert "serverside-applied" in await kubectl(
        "apply", "--server-side", "--force-conflicts", "--filename=-", stdin=WIDGET
    )
    assert (await kubectl.get("widget", "w"))["spec"] == {"size": 1}
