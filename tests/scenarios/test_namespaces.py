"""What the end of a scenario's namespace leaves to the controllers, which may be slow: no claim."""

from __future__ import annotations

from pathlib import Path

from localplane.https_server import serve_https
from localplane.server import ApiServer
from tests.scenarios import api as kubernetes
from tests.scenarios import objects
from tests.scenarios.namespaces import Namespace
from tests.scenarios.resources import CLAIMS, NAMESPACES


async def test_claims_are_gone_at_once_and_whatever_finalizers_they_have(tmp_path: Path) -> None:
    async with (
        serve_https(ApiServer().handle, folder=tmp_path) as endpoint,  # nobody there who deletes what a namespace has
        kubernetes.connect(endpoint.kubeconfig) as api,
    ):
        namespace = Namespace(api, "ends")
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace.name}})
        for name, finalizers in (("held", ["resource.kubernetes.io/delete-protection"]), ("free", [])):
            claim = objects.claim(name, device_class="none")
            claim["metadata"]["finalizers"] = finalizers
            await namespace.create(claim)
        await namespace.end()
        assert (await api.get(NAMESPACES, namespace.name))["status"]["phase"] == "Terminating"
        assert await namespace.all(CLAIMS) == []
