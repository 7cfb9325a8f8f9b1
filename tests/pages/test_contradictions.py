"""No page contradicts another one, or shows a command that answers less than the page says."""

import re

import pytest
import yaml

from dra.model.workload_types import WORKLOAD_TYPES
from tests.pages.reading import ROOT
from tests.violations import for_each

PLACES = {".": "README.md", "docs": "*.md", "examples": "*.md", "deploy": "NOTES.txt", "dra": "*.py"}
"""Folder → files that show commands to users: texts of the command line are in `dra`."""

PAGES = sorted(
    path for folder, names in PLACES.items() for path in (ROOT / folder).glob(names if folder == "." else f"**/{names}")
)
ONE_OF_SEVERAL = re.compile(
    r"kubectl(?: -n \S+)? (?:logs|exec|port-forward|attach)\b[^\n`]*"
    r"\b(?:deploy(?:ment)?s?|daemonsets?|ds|rs|replicasets?|statefulsets?|sts)(?:\.apps)?[/ ]\w"
)
"""Commands that choose one arbitrary pod of a workload: its log is that of a standby, or of a healthy node."""

LEASE = re.compile(r"kubectl(?: -n \S+)? get leases?(?:\.\S+)?\b[^\n`]*")
RENEWED = re.compile(r"renewTime|-o yaml|-o json\b")


def lines(path, pattern):
    return [match.group() for match in pattern.finditer(path.read_text())]


@for_each(PAGES, name=lambda path: path.relative_to(ROOT))
def test_no_command_reads_one_arbitrary_pod_of_several(path):
    """Eight pages read `kubectl logs deployment/…`: of two replicas that of the standby, of a DaemonSet any node's."""
    assert lines(path, ONE_OF_SEVERAL) == []


@for_each(PAGES, name=lambda path: path.relative_to(ROOT))
def test_a_lease_proves_a_leader_only_with_the_time_of_its_renewal(path):
    """Six pages took `kubectl get lease` as proof: it names a leader that has been dead for 26 s."""
    assert [shown for shown in lines(path, LEASE) if not RENEWED.search(shown)] == []


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        ("kubectl logs -n dra-reserve deployment/dra-reserve-controller --tail=50", True),
        ("kubectl -n dra-reserve logs ds/plugin", True),
        ("kubectl exec -n dra-reserve deploy/dra-reserve-controller -- true", True),
        ("kubectl port-forward deployment dra-reserve-page 8080", True),
        ("kubectl logs -n dra-reserve -l app.kubernetes.io/component=controller --prefix", False),
        ("kubectl rollout status deployment/dra-reserve-controller", False),
    ],
)
def test_which_commands_choose_one_pod(command, is_one):
    assert bool(ONE_OF_SEVERAL.search(command)) is is_one


def readable_kinds():
    """Return the kinds of workloads that the installed role lets the controller read."""
    text = (ROOT / "deploy" / "kustomize" / "base" / "workload-rights.yaml").read_text()
    rules = [rule for obj in yaml.safe_load_all(text) for rule in obj.get("rules") or ()]
    return {
        f"{resource}.{group}".rstrip(".")
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_reference_says_of_which_kinds_the_controller_may_read_none():
    """The table of built-in rules named DaemonSets and CronJobs, whose claims stay reserved for lack of a right."""
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    told = r"The installed roles let the controller read all of these kinds but (.*?)\. A claim"
    (sentence,) = re.findall(told, page, re.DOTALL)
    lacking = {str(each.resource) for each in WORKLOAD_TYPES} - readable_kinds() - {"pods"}
    assert set(re.findall(r"`([a-z.0-9-]*s(?:\.[a-z.0-9-]+)?)`", sentence)) == lacking
    for name in ("docs/how-to/reserve-a-claim.md", "docs/reference/rights.md"):
        text = " ".join((ROOT / name).read_text().split())
        assert "such as DaemonSets or CronJobs" in text


def test_pages_agree_on_how_many_pods_use_a_claim_on_a_managed_cluster():
    """README and picture promised any number of pods on unmodified clusters; 253 of 400 started there."""
    picture = (ROOT / "docs" / "explanation" / "what-it-is.svg").read_text()
    assert "about 250 at once in mode alongside" in picture
    for name in ("README.md", "docs/index.md", "docs/how-to/platforms.md", "docs/how-to/faq.md"):
        text = (ROOT / name).read_text()
        assert "many-pods-on-managed.md" in text
        assert re.search(r"[Aa]bout 250", text)
