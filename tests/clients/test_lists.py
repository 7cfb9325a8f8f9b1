"""Lists in manifests: kubectl checks them by itself, with what OpenAPI v2 says, and sends their items one by one."""

import pytest

from tests.clients.conftest import local_plane
from tests.clients.kubectl import BINARY, Kubectl
from tests.clients.manifests import definition, gadget

LIST = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {a: b}}
- apiVersion: v1
  kind: Pod
  metadata: {name: two}
  spec: {containers: [{name: main, image: "example.com/main:1", resources: {limits: {cpu: 1}}}]}
"""


@pytest.fixture
async def shell(tmp_path):
    if BINARY is None:
        pytest.skip("there is no kubectl on PATH (https://kubernetes.io/docs/tasks/tools)")
    async with local_plane(tmp_path) as endpoint:
        yield Kubectl(endpoint.kubeconfig, namespace="default")


@pytest.mark.parametrize("verb", ["create", "apply", "apply --server-side"])
async def test_the_items_of_a_list_are_made(shell, verb):
    out, errors, code = await shell.quiet(f"{verb} -o name -f -", stdin=LIST)

    assert (out.split(), errors, code) == (["configmap/one", "pod/two"], "", 0)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param("data: {a: b}", "dta: {a: b}", 'unknown field "dta" in io.k8s.api.core.v1.ConfigMap', id="typo"),
        pytest.param("data: {a: b}", "immutable: 3", 'got "integer", expected "boolean"', id="type"),
        pytest.param("name: main, ", "", 'missing required field "name"', id="missing"),
    ],
)
async def test_nothing_is_made_of_a_list_that_is_wrong(shell, old, new, told):
    _, errors, code = await shell.quiet("create -f -", stdin=LIST.replace(old, new))

    assert code == 1
    assert told in errors
    assert (await shell.quiet("get configmaps one"))[2] == 1


async def test_definitions_count_in_lists(shell):
    await shell.quiet("create -f -", stdin=definition("gadget"))
    await shell.quiet("wait --for=condition=Established crd/gadgets.clients.example.com --timeout=20s")
    item = "\n".join("  " + line for line in gadget("a", "{size: large}", kind="Gadget").splitlines())
    wrong = f"apiVersion: v1\nkind: List\nitems:\n- {item.strip()}\n"

    assert 'got "string", expected "integer"' in (await shell.quiet("create -f -", stdin=wrong))[1]
    assert (await shell.quiet("create -f -", stdin=wrong.replace("large", "3")))[2] == 0
