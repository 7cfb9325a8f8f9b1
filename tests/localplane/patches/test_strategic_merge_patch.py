"""Strategic merge patches against a real API server, and what holds for all of them."""

import json
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.kube.transport import STRATEGIC_PATCH
from localplane import query_options, routes
from localplane.codecs import CodecFactory, PatchContext
from localplane.patches import strategic_merge_patch
from localplane.schemas import body_parser
from localplane.schemas.builtin_schemas import Dialect
from localplane.status_errors import StatusError
from tests.localplane.recorded import EXCHANGES, catalog, differences, lasting, named
from tests.violations import for_each

CATALOG = catalog()
CODECS = CodecFactory(Dialect.STOCK)
BEFORE = {"strategic-": "make-deployment", "pod-": "make-pod", "claim-": "claim-allocate"}

ELSEWHERE = {
    "pod-owners-mismatch",  # what follows is the business of validation
    "pod-resource-claim-statuses",
    "pod-version",
    "claim-other-uid",
    "strategic-retain-keys-missing",
    "strategic-delete-root",
    "strategic-replace-root",
    "strategic-body-list",  # and these are the server's
    "strategic-body-string",
    "strategic-body-cut",
    "strategic-body-empty",
    "strategic-body-null",
}

PATCHES = [each for each in named(*BEFORE) if each.content_type == STRATEGIC_PATCH and each.name not in ELSEWHERE]


def patched(exchange):
    """Return the result of a recorded patch, and its warnings; raises `Refusal`."""
    before = next(EXCHANGES[name].answer for beginning, name in BEFORE.items() if exchange.name.startswith(beginning))
    codec = CODECS.for_kind(routes.resolve_path(exchange.path, CATALOG).kind)
    body = body_parser.parse_json(exchange.raw)
    found = strategic_merge_patch.mutation(body, codec.schema)(deepcopy(before))
    found, warnings = codec.decode_patch_result(
        found,
        PatchContext(body, strategic=True),
        query_options.write_options(exchange.query, verb="Patch").field_validation,
    )
    return found, [f"299 - {json.dumps(each)}" for each in warnings]


@for_each([each for each in PATCHES if each.status < 400], name=lambda each: each.name)
def test_the_result_is_that_of_the_real_server(exchange):
    found, warnings = patched(exchange)

    assert list(differences(lasting(found), exchange.answer)) == []
    assert warnings == exchange.warnings


@for_each([patch for patch in PATCHES if patch.status >= 400], name=lambda patch: patch.name)
def test_what_the_real_server_refuses_is_refused_in_its_words(exchange):
    with pytest.raises(StatusError) as refused:
        patched(exchange)

    assert refused.value.status == exchange.answer


def test_fields_that_were_taken_away_are_gone():
    found, _ = patched(EXCHANGES["strategic-null"])
    assert "volumes" not in found["spec"]["template"]["spec"]

    found, _ = patched(EXCHANGES["claim-leave"])
    assert [each["name"] for each in found["status"]["reservedFor"]] == ["b"]


SCHEMA = CODECS.for_builtin("", "v1", "Pod").schema.fields["spec"]

NAMES = st.sampled_from("abcdef")
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"image": st.sampled_from("xyz"), "tty": st.booleans()}),
    unique_by=lambda each: each["name"],
    max_size=5,
)
CHANGES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": NAMES}, optional={"image": st.sampled_from(["p", "q", None])}),
        st.fixed_dictionaries({"name": NAMES, "$patch": st.just("delete")}),
    ),
    unique_by=lambda each: each["name"],
    max_size=5,
)


def merged(target, changes):
    found = strategic_merge_patch.mutation({"containers": changes}, SCHEMA)({"containers": deepcopy(target)})[
        "containers"
    ]
    return [{name: value for name, value in each.items() if value is not None} for each in found]  # as decoding does


@given(target=CONTAINERS, changes=CHANGES)
def test_a_patch_done_twice_is_a_patch_done_once(target, changes):
    once = merged(target, changes)

    assert merged(once, changes) == once


@given(target=CONTAINERS)
def test_an_empty_patch_changes_nothing(target):
    assert merged(target, []) == target
    assert strategic_merge_patch.mutation({}, SCHEMA)({"containers": target}) == {"containers": target}


@given(target=CONTAINERS, changes=CHANGES)
def test_all_that_is_not_deleted_is_there_once_and_in_the_order_it_was_given(target, changes):
    names = [each["name"] for each in merged(target, changes)]
    gone = {each["name"] for each in changes if "$patch" in each}
    wanted = [each["name"] for each in changes if "$patch" not in each]
    others = [each["name"] for each in target if each["name"] not in {*gone, *wanted}]

    assert sorted(names) == sorted({*wanted, *others})
    assert [each for each in names if each in wanted] == wanted
    assert [each for each in names if each in others] == others


@given(target=CONTAINERS, changes=CHANGES)
def test_a_patch_is_not_changed_by_being_applied(target, changes):
    before = deepcopy(changes)
    merged(target, changes)

    assert changes == before
