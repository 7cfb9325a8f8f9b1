import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.model.meta import Uid
from dra.model.references import ConsumerReference, GroupResource, MalformedReferenceError
from tests.violations import for_each_case

LABELS = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
SUBDOMAINS = st.lists(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True), min_size=1, max_size=4).map(
    ".".join
)


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        pytest.param("jobs.batch/train", ("jobs", "batch"), "train", id="built-in-group"),
        pytest.param("pods/x", ("pods", ""), "x", id="core-group"),
        pytest.param("rayclusters.ray.io/llm", ("rayclusters", "ray.io"), "llm", id="group-with-points"),
        pytest.param("jobs.batch/train.v2", ("jobs", "batch"), "train.v2", id="name-with-points"),
        pytest.param("jobs.batch/0", ("jobs", "batch"), "0", id="name-of-digits"),
    ],
)
def test_kubectls_notation_is_read(text, kind, name):
    found = ConsumerReference.parse(text, uid=Uid("1"))
    assert (found.resource, found.api_group, found.name, found.uid) == (*kind, name, "1")
    assert str(found) == text


@for_each_case(
    [
        pytest.param("", id="nothing"),
        pytest.param("train", id="no-kind"),
        pytest.param("/train", id="empty-kind"),
        pytest.param("jobs.batch/", id="empty-name"),
        pytest.param("jobs.batch", id="no-name"),
        pytest.param("jobs./train", id="empty-group"),
        pytest.param(".batch/train", id="no-resource"),
        pytest.param("jobs..batch/train", id="group-begins-with-a-point"),
        pytest.param("Jobs.batch/train", id="upper-case"),
        pytest.param("batch/v1/jobs/train", id="a-path"),
        pytest.param("jobs.batch/..", id="a-way-up"),
        pytest.param("jobs.batch/x/status", id="a-subresource"),
        pytest.param("jobs.batch/tr ain", id="a-space"),
        pytest.param("jobs.batch/train\n", id="a-line-break"),
        pytest.param("jobs.batch/%2e", id="escaped"),
        pytest.param("jobs.batch/" + "x" * 254, id="name-too-long"),
        pytest.param("j" * 64 + ".batch/train", id="resource-too-long"),
        pytest.param("1jobs.batch/train", id="resource-begins-with-a-digit"),
    ],
)
def test_what_could_be_no_path_is_refused_with_an_example(text):
    with pytest.raises(MalformedReferenceError, match=r"for example:? jobs\.batch") as refused:
        ConsumerReference.parse(text)
    begin = repr(text[:40])[:-1]
    assert begin in str(refused.value) or repr(text.partition("/")[0])[:40] in str(refused.value)


@pytest.mark.parametrize("text", ["x" * 200_000, "jobs.batch/" + "x" * 200_000, "x" * 200_000 + "/train"])
def test_what_is_refused_is_not_repeated_at_length(text):
    with pytest.raises(MalformedReferenceError) as refused:
        ConsumerReference.parse(text)
    assert len(str(refused.value)) < 300


@given(LABELS, st.none() | SUBDOMAINS, SUBDOMAINS)
def test_every_reference_can_be_written_and_read_again(resource, group, name):
    reference = ConsumerReference(resource=resource, api_group=group or "", name=name)
    assert ConsumerReference.parse(str(reference)) == reference
    assert GroupResource.parse(str(reference.group_resource)) == reference.group_resource


@pytest.mark.parametrize(
    ("text", "is_pod"),
    [
        pytest.param("pods/x", True, id="core-pods"),
        pytest.param("pods.metrics.k8s.io/x", False, id="pods-of-another-group"),
        pytest.param("jobs.batch/x", False, id="jobs"),
    ],
)
def test_only_core_pods_are_pods(text, is_pod):
    assert ConsumerReference.parse(text).is_pod is is_pod
