"""What people type for a kind and a name."""

import click
import pytest

from dra.cli.kubectl.resource_args import parse_resource_args, parse_workload_args

ALL = ("claim", "pod", "node", "device", "reservation", "migration", "reason")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("claim", "train"), ("claim", "train")),
        (("claims/train", None), ("claim", "train")),
        (("ResourceClaim", "train"), ("claim", "train")),
        (("resourceclaims.resource.k8s.io/train", None), ("claim", "train")),
        (("po", "a"), ("pod", "a")),
        (("device/gpu.example.com/node-1/gpu-0", None), ("device", "gpu.example.com/node-1/gpu-0")),
        (("rsv", "a"), ("reservation", "a")),
        (("pmj/a", None), ("migration", "a")),
        (("podmigrationjobs.scheduling.koordinator.sh/a", None), ("migration", "a")),
    ],
    ids=lambda each: " ".join(map(str, each)),
)
def test_kubectls_names_and_both_ways_to_write_them(words, found):
    assert parse_resource_args(*words, among=ALL) == found


@pytest.mark.parametrize(
    ("words", "among", "said"),
    [
        pytest.param(("calim", "a"), ALL, "'calim' is none of claim, pod, .*Did you mean claim", id="typo"),
        pytest.param(("train", None), ("claim",), "'train' is no claim: claim NAME, or claim/NAME", id="name-only"),
        pytest.param(("claim", None), ALL, "which claim. claim NAME, or claim/NAME", id="kind-only"),
        pytest.param(("claim/", None), ALL, "which claim", id="nothing-behind-the-slash"),
    ],
)
def test_what_is_not_understood_says_what_would_be(words, among, said):
    with pytest.raises(click.UsageError, match=said):
        parse_resource_args(*words, among=among)


def test_a_list_needs_no_name():
    assert parse_resource_args("devices", None, among=ALL, named=False) == ("device", None)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("job", "train"), ("job", "train")),
        (("jobs.v1.batch/train", None), ("jobs.v1.batch", "train")),
        (("claim", "train"), None),
        (("pods/a", None), None),
        (("train", None), None),
    ],
    ids=lambda each: " ".join(map(str, each or ("none",))),
)
def test_any_other_kind_is_a_workload(words, found):
    assert parse_workload_args(*words) == found
