"""The chart's upgrade from an older chart, by the command of docs/how-to/upgrade.md.

The server of the local plane has no admission policies; two definitions stand for their kinds.
"""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from dra.kube.transport import Request
from localplane.objects import encode
from localplane.schemas.builtin_schemas import Dialect
from tests.cluster import binaries, charts
from tests.localplane.threaded import served
from tests.older_build import builds

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NAMESPACE = "--namespace=dra-reserve"
POLICY_KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
PLURALS = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}


def definition(kind):
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    group = "admissionregistration.k8s.io"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/3488"},
        },
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


async def define_policies(server):
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for kind in POLICY_KINDS:
        body = encode(definition(kind))
        answer = await server.handle(
            Request(method="POST", path=path, body=body, content_type="application/json", timeout=5.0)
        )
        assert answer.status < 300, answer.body


@pytest.fixture(scope="module")
def older_chart(tmp_path_factory):
    try:
        binaries.build(binaries.helm())
        build = builds.older(tmp_path_factory.mktemp("older"))
    except (binaries.NoGoError, builds.NoHistoryError) as error:
        pytest.skip(str(error))
    return build.tree / "deploy" / "helm" / "dra-reserve"


@pytest.fixture
def installed(tmp_path, older_chart):
    """A server on which the older chart is installed, in mode replace and with an image."""
    with served(tmp_path, Dialect.STOCK, prepare=define_policies) as kubeconfig:
        mine = ("--set", "mode=replace", "--set", "image.repository=registry.example.com/dra-reserve")
        way = (NAMESPACE, "--create-namespace", *mine)
        charts.helm("install", "dra-reserve", str(older_chart), *way, kubeconfig=kubeconfig)
        yield kubeconfig


def upgrade_command():
    text = (ROOT / "docs" / "how-to" / "upgrade.md").read_text()
    (line,) = re.findall(r"^helm upgrade .*$", text, re.MULTILINE)
    _, *words = shlex.split(line)
    return [str(ROOT / word) if word.startswith("deploy/") else word for word in words]


def test_an_upgrade_keeps_the_values_of_the_user_and_takes_new_defaults(installed):
    charts.helm(*upgrade_command(), kubeconfig=installed)
    values = yaml.safe_load(charts.helm("get", "values", "--all", "dra-reserve", NAMESPACE, kubeconfig=installed))
    assert (values["mode"], values["image"]["repository"]) == ("replace", "registry.example.com/dra-reserve")
    default = yaml.safe_load((charts.CHART / "values.yaml").read_text())
    assert values.keys() >= default.keys()
    assert values["descheduler"]["profiles"] == default["descheduler"]["profiles"]


def test_reusing_all_values_of_the_older_chart_lacks_what_the_new_chart_adds(installed):
    """The pages named this flag: an upgrade failed at the first template that reads a new value."""
    words = [word.replace("--reset-then-reuse-values", "--reuse-values") for word in upgrade_command()]
    with pytest.raises(charts.HelmError, match="nil pointer"):
        charts.helm(*words, kubeconfig=installed)


def test_no_page_drops_the_defaults_of_a_new_chart():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("NOTES.txt")]
    text = "\n".join(page.read_text() for page in pages)
    assert not re.findall(r"helm upgrade .*--reuse-values", text.replace("\\\n", " "))
