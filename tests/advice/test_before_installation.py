"""What is printed before an installation, or after a part of one, is run there: it works or changes nothing."""

import shlex
from functools import partial

import pytest
import yaml
from click.testing import CliRunner

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl import connection
from dra.cli.kubectl.main import main
from dra.cli.manifests import kustomization
from dra.kube import resources
from dra.kube.resources import Resource
from dra.model.meta import PartialObjectMetadata
from localplane.schemas.builtin_schemas import Dialect
from tests.localplane.threaded import served

RENDERED = kustomization.render("deploy/kustomize/alongside")
PARTS = {
    "nothing": [],
    "the-namespace": [each for each in RENDERED if each["kind"] == "Namespace"],
    "no-roles": [
        each for each in RENDERED if each["kind"] in {"Namespace", "ServiceAccount", "ConfigMap", "Deployment"}
    ],
}
QUESTIONS = (
    ["preflight"],
    ["preflight", "--mode=replace"],
    ["preflight", "--koordinator"],
    ["audit"],
    ["usage"],
    ["downgrade"],
    ["uninstall", "--dry-run"],
)
RBAC = ("rbac.authorization.k8s.io", "v1")
READ = (
    resources.NAMESPACES,
    resources.DEPLOYMENTS,
    resources.LEASES,
    *(
        Resource(*RBAC, f"{kind.lower()}s", kind, namespaced=not kind.startswith("Cluster"))
        for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    ),
)


async def listed(kind, connected):
    pages = connected.client.list_pages(kind, PartialObjectMetadata)
    return [(kind.kind, *each.metadata.key) async for page in pages for each in page.items]


@pytest.fixture(params=PARTS)
def run(request, tmp_path, monkeypatch):
    """Run a command of the plugin on a server with a part of an installation, where no account has any right."""

    async def refuse(*_arguments, **_more):
        return False

    monkeypatch.setattr("dra.cli.kubectl.preflight.access_review._is_allowed", refuse)
    with served(tmp_path, Dialect.STOCK) as kubeconfig:

        def invoke(*words, **more):
            return CliRunner().invoke(main, [words[0], f"--kubeconfig={kubeconfig}", *words[1:]], **more)

        invoke.kubeconfig = kubeconfig
        if manifests := PARTS[request.param]:
            done = invoke("apply", "-f", "-", input=yaml.safe_dump_all(manifests))
            assert done.exit_code == 0, done.output
        yield invoke


def printed_commands(output):
    """The commands below "To do" of a checklist."""
    todo = output.partition("\n\nTo do:\n")[2].partition("\n\n")[0]
    for line in filter(None, todo.splitlines()):
        yield line.split(": ", 1)[1]


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_a_printed_command_works_or_changes_nothing(run, question):
    """A printed grant created a ClusterRole and its binding, and failed on the missing namespace."""

    def objects():
        found = []
        for kind in READ:
            pages = partial(listed, kind)
            found += connection.run(ClusterFlags(kubeconfig=str(run.kubeconfig)), pages)
        return found

    for command in printed_commands(run(*question).stdout):
        if not command.startswith("kubectl dra "):
            assert command.startswith(("kubectl get ", "kubectl describe ")), command
            continue
        before = objects()
        words, _, kubectl = command.removeprefix("kubectl dra ").partition(" | kubectl ")
        done = run(*shlex.split(words))
        if kubectl:
            done = run(*shlex.split(kubectl), input=done.stdout)
        assert done.exit_code == 0 or objects() == before, f"{command}: {done.output}"
