"""What `kubectl dra reserve` makes of a command line."""

import re

import pytest
import yaml
from click.testing import CliRunner

from dra.api.reservations import model
from dra.cli.kubectl.main import main
from dra.cli.kubectl.reservations import reserve
from dra.cli.kubectl.reservations.reserve import InvalidReserveOptionsError, ReserveOptions
from tests.violations import for_each_case


def options(**given):
    return ReserveOptions(**{"name": "r", "resources": {"cpu": "1"}, "namespace": "ml", **given})


@for_each_case(
    [
        pytest.param(
            {"owners": ("jobs.batch/train",)},
            [{"controller": {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "namespace": "ml"}}],
            id="a-job",
        ),
        pytest.param(
            {"owners": ("sts/db", "pod/one")},
            [
                {"controller": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "namespace": "ml"}},
                {"object": {"kind": "Pod", "namespace": "ml", "name": "one"}},
            ],
            id="several-by-short-names",
        ),
        *(
            pytest.param(
                {"owners": (written,)},
                [{"controller": {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "namespace": "ml"}}],
                id=written,
            )
            for written in ("job/train", "jobs/train", "Job/train", "job.batch/train", "jobs.v1.batch/train")
        ),
        pytest.param(
            {"labels": "app=web,tier==front"},
            [{"object": {"namespace": "ml"}, "labelSelector": {"matchLabels": {"app": "web", "tier": "front"}}}],
            id="labels-of-one-namespace",
        ),
        pytest.param(
            {"labels": "app=web", "all_namespaces": True},
            [{"labelSelector": {"matchLabels": {"app": "web"}}}],
            id="labels-of-all-namespaces",
        ),
        pytest.param(
            {"labels": "app=web", "all_namespaces": True, "owners": ("pod/one",)},
            [
                {"object": {"kind": "Pod", "namespace": "ml", "name": "one"}},
                {"labelSelector": {"matchLabels": {"app": "web"}}},
            ],
            id="a-name-is-of-one-namespace-even-beside-labels-of-all",
        ),
    ]
)
def test_owners_are_said_as_people_name_workloads(given, owners):
    made = reserve.build_manifest(options(**given))
    assert made["spec"]["owners"] == owners
    assert model.parse_reservation(made).spec.owners


def test_all_that_is_asked_for_is_in_the_object_and_nothing_else():
    made = reserve.build_manifest(
        options(
            owners=("pods/p",),
            resources={"cpu": "6", "memory": "20Gi"},
            ttl="1h",
            expires="2027-01-01T00:00:00Z",
            node="n1",
            reusable=True,
            allocate_policy="Restricted",
        )
    )
    assert made["spec"] | {"owners": None} == {
        "template": {
            "metadata": {"namespace": "ml"},
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "held", "resources": {"requests": {"cpu": "6", "memory": "20Gi"}}}],
            },
        },
        "owners": None,
        "ttl": "1h",
        "expires": "2027-01-01T00:00:00Z",
        "allocatePolicy": "Restricted",
        "allocateOnce": False,
    }


@for_each_case(
    [
        pytest.param({}, "no owners given", id="nobody"),
        pytest.param({"resources": {}, "labels": "a=b"}, "no resources given", id="nothing"),
        pytest.param({"owners": ("deployments.apps/web",)}, "its ReplicaSets", id="a-deployment"),
        pytest.param({"owners": ("train",)}, "jobs.batch/train", id="no-kind"),
        pytest.param({"owners": ("jobs.batch.volcano.sh/x",)}, "unknown kind", id="a-namesake-of-another-group"),
        pytest.param({"owners": ("crews.example.com/x",)}, "unknown kind", id="unknown-kind"),
        pytest.param({"owners": ("pods/p",), "all_namespaces": True}, "-A requires -l", id="a-name-in-all-namespaces"),
        pytest.param({"labels": "a in (b)"}, "-l a in (b)", id="selector"),
        pytest.param({"labels": "a!=b"}, "-l a!=b", id="not-equal"),
        pytest.param({"labels": "a=b c"}, "not a valid label value", id="label-value"),
        pytest.param({"labels": "a=b", "ttl": "1 day"}, "spec.ttl", id="ttl"),
        pytest.param({"labels": "a=b", "expires": "tomorrow"}, "spec.expires", id="expires"),
        pytest.param({"labels": "a=b", "resources": {"cpu": "-1"}}, "requests.cpu", id="negative"),
    ]
)
def test_what_cannot_be_meant_is_refused_and_the_field_is_named(given, expected):
    with pytest.raises(InvalidReserveOptionsError, match=re.escape(expected)):
        reserve.build_manifest(options(**given))


@pytest.mark.parametrize("text", ["gpu", "gpu=", "=2"])
def test_a_resource_needs_name_and_amount(text):
    with pytest.raises(InvalidReserveOptionsError, match="use the form"):
        reserve.parse_resources(cpu=None, memory=None, others=(text,))


def test_a_dry_run_on_the_client_needs_no_cluster(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    line = ["reserve", "web", "--cpu=2", "-l", "app=web", "--dry-run=client"]
    told = CliRunner().invoke(main, line)
    assert (told.exit_code, told.output) == (0, "reservation.scheduling.koordinator.sh/web created (dry run)\n")
    shown = CliRunner().invoke(main, [*line, "-o", "yaml"])
    assert yaml.safe_load(shown.stdout)["spec"]["owners"][0]["object"] == {"namespace": "default"}
