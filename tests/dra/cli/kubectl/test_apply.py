"""`kubectl dra apply` on a server with the KEP's fields and on one without."""

import json

import pytest
import yaml
from click.testing import CliRunner

from dra.cli.kubectl.apply import MalformedReservedForError, has_reserved_for, to_annotations
from dra.cli.kubectl.main import main
from dra.kube.transport import JSON, Request
from localplane.schemas.builtin_schemas import Dialect
from tests.localplane.threaded import served

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c"},
    "spec": {
        "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]},
        "reservedFor": {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "u"},
    },
}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}


@pytest.fixture(params=[Dialect.STOCK, Dialect.KEP], ids=lambda dialect: dialect.value)
def dialect(request):
    return request.param


@pytest.fixture
def kubeconfig(tmp_path, dialect):
    """A server of its own, in a thread of its own, with a namespace."""

    async def prepare(server):
        body = json.dumps({"metadata": {"name": "ml"}}).encode()
        await server.handle(
            Request(method="POST", path="/api/v1/namespaces", body=body, content_type=JSON, timeout=9.0)
        )

    with served(tmp_path, dialect, prepare=prepare) as found:
        yield found


@pytest.fixture
def apply(kubeconfig, tmp_path):
    def apply(*manifests, options=()):
        (tmp_path / "m.yaml").write_text(yaml.safe_dump_all(manifests))
        command = ["apply", f"--filename={tmp_path}/m.yaml", f"--kubeconfig={kubeconfig}", "--namespace=ml", *options]
        return CliRunner().invoke(main, command)

    return apply


def test_a_claim_is_reserved_in_the_form_that_the_server_knows(apply, dialect):
    done = apply(CLAIM, MAP, options=["--output=json"])
    assert done.exit_code == 0, done.output
    claim, other = json.loads(done.stdout)["items"]
    annotations = claim["metadata"].get("annotations", {})
    if dialect is Dialect.KEP:
        assert (claim["spec"]["reservedFor"]["name"], annotations, done.stderr) == ("train", {}, "")
    else:
        assert "reservedFor" not in claim["spec"]
        assert annotations["reserve.dra/reserved-for"] == "jobs.batch/train"
        assert "is applied as an annotation" in done.stderr
    assert other["data"] == {"a": "1"}


@pytest.mark.parametrize("dialect", [Dialect.STOCK], indirect=True)
class TestAsKubectl:
    def test_it_says_what_it_has_done_and_doing_it_again_changes_nothing(self, apply):
        said = "resourceclaim.resource.k8s.io/c serverside-applied\nconfigmap/m serverside-applied\n"
        assert apply(CLAIM, MAP).stdout == said
        before, after = (json.loads(apply(MAP, options=["-o", "json"]).stdout) for _ in range(2))
        assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]

    def test_a_dry_run_keeps_nothing(self, apply):
        for kind, said in (("client", "(dry run)"), ("server", "(server dry run)")):
            done = apply(CLAIM, options=[f"--dry-run={kind}"])
            assert done.stdout == f"resourceclaim.resource.k8s.io/c serverside-applied {said}\n"
        assert apply(CLAIM, options=["--dry-run=server", "-o", "jsonpath={.metadata.generation}"]).exit_code == 0
        shown = yaml.safe_load(apply(CLAIM, options=["--dry-run=client", "-o", "yaml"]).stdout)
        assert shown["metadata"]["annotations"]["reserve.dra/reserved-for"] == "jobs.batch/train"

    def test_fields_of_others_are_not_taken_without_being_told_to(self, apply):
        assert apply(MAP, options=["--field-manager=other"]).exit_code == 0
        mine = MAP | {"data": {"a": "2"}}
        refused = apply(mine)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "--force-conflicts" in refused.stderr
        assert apply(mine, options=["--force-conflicts"]).exit_code == 0

    def test_one_that_cannot_be_applied_does_not_keep_the_others_from_it(self, apply):
        done = apply({"apiVersion": "nowhere.dev/v1", "kind": "X", "metadata": {"name": "x"}}, MAP)
        assert (done.exit_code, done.stdout) == (1, "configmap/m serverside-applied\n")
        assert "X x: the API server does not serve nowhere.dev/v1" in done.stderr

    def test_a_namespace_that_is_not_the_one_given_is_refused(self, apply):
        done = apply(MAP | {"metadata": {"name": "m", "namespace": "other"}})
        assert "namespace other does not match --namespace ml" in done.stderr


JOB = {"apiGroup": "batch", "resource": "jobs", "name": "train"}


def claim(reference, **metadata):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"} | metadata,
        "spec": {"devices": {}, "reservedFor": reference},
    }


def test_a_claim_gets_annotations_and_loses_the_field():
    made = to_annotations(claim(JOB | {"uid": "u"}, annotations={"mine": "x"}))
    assert made["spec"] == {"devices": {}}
    assert made["metadata"]["annotations"] == {
        "mine": "x",
        "reserve.dra/reserved-for": "jobs.batch/train",
        "reserve.dra/reserved-for-uid": "u",
    }


def test_a_template_gets_them_where_its_claims_have_them():
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t"},
        "spec": {"spec": {"devices": {}, "reservedFor": JOB}},
    }
    made = to_annotations(template)
    assert made["metadata"] == {"name": "t"}
    assert made["spec"]["metadata"]["annotations"] == {"reserve.dra/reserved-for": "jobs.batch/train"}
    assert made["spec"]["spec"] == {"devices": {}}


def test_what_is_handed_over_stays_as_it_is():
    given = claim(JOB)
    to_annotations(given)
    assert given == claim(JOB)


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod", "spec": {"reservedFor": JOB}}, id="another-kind"),
        pytest.param(claim(None), id="nothing-said"),
        pytest.param({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}, id="no-spec"),
    ],
)
def test_everything_else_is_not_touched(manifest):
    assert not has_reserved_for(manifest)
    assert to_annotations(manifest) == manifest


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        pytest.param("jobs/train", "must be one reference", id="text"),
        pytest.param([JOB], "must be one reference", id="list"),
        pytest.param({"kind": "Job", "name": "train"}, "use field resource", id="kind"),
        pytest.param({"resource": "jobs"}, "resource and name are required", id="no-name"),
        pytest.param(JOB | {"namespace": "x"}, "namespace: unknown field", id="namespace"),
        pytest.param(JOB | {"name": "a/b"}, "spec.reservedFor", id="no-name-of-an-object"),
    ],
)
def test_a_reference_that_nobody_can_follow_is_refused(reference, expected):
    with pytest.raises(MalformedReservedForError, match=expected):
        to_annotations(claim(reference))


def test_field_and_annotation_that_disagree_are_refused():
    with pytest.raises(MalformedReservedForError, match=r"annotation reserve\.dra/reserved-for is jobs\.batch/other"):
        to_annotations(claim(JOB, annotations={"reserve.dra/reserved-for": "jobs.batch/other"}))
