"""The old way to bind a pod."""

import pytest

from tests.localplane.api_client import ApiClient

PODS = "/api/v1/namespaces/default/pods"
BINDINGS = "/api/v1/namespaces/default/bindings"


def binding(name):
    return {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}


@pytest.fixture
async def api():
    found = ApiClient()
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await found.ok("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    return found


async def test_a_binding_binds_the_pod_of_its_name(api):
    assert (await api.ok("POST", BINDINGS, binding("p")))["status"] == "Success"
    assert (await api.ok("GET", f"{PODS}/p"))["spec"]["nodeName"] == "n1"
    assert (await api.refused("POST", BINDINGS, binding("p")))[0] == 409


async def test_a_binding_of_no_pod_is_refused(api):
    assert await api.refused("POST", BINDINGS, binding("q")) == (404, 'pods "q" not found')
    assert (await api.refused("GET", BINDINGS))[0] == 405
