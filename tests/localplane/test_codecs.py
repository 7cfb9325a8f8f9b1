"""Strict decoding against a real API server: what it refuses, what it warns of, what it writes again."""

import json
import timeit

import pytest

from localplane import query_options, routes
from localplane.codecs import CodecFactory, FieldValidation, PatchContext
from localplane.schemas.builtin_schemas import Dialect
from localplane.status_errors import StatusError
from tests.localplane.recorded import EXCHANGES, catalog, differences, named
from tests.violations import for_each

CATALOG = catalog()
CODECS = CodecFactory(Dialect.STOCK)

ELSEWHERE = {
    "body-text": "the media type is the server's business",
    "body-protobuf": "protobuf is not read: the server answers 415",
    "body-yaml-bad": "PyYAML has words of its own",
    "duplicate-unknown": "repeated fields of an object are named before its unknown ones",
    "type-replicas-exponent": "how a number was written is not kept",
}


def read(exchange):
    """Return the object, its warnings and what is wrong."""
    route = routes.resolve_path(exchange.path, CATALOG)
    try:
        validation = query_options.write_options(exchange.query, verb="Create").field_validation
        codec = CODECS.for_kind(route.kind)
        obj, warnings = codec.decode(exchange.raw, validation, content_type=exchange.content_type or "")
    except StatusError as refusal:
        return None, [], refusal.status
    return obj, [f"299 - {json.dumps(each)}" for each in warnings], None


POSTS = [each for each in named("") if each.method == "POST" and each.name not in ELSEWHERE]
REFUSED = [each for each in POSTS if each.status == 400 or each.name == "unknown-fields-Bogus"]
TAKEN = [each for each in POSTS if each not in REFUSED]


@for_each(REFUSED, name=lambda each: each.name)
def test_what_the_real_server_refuses_is_refused_in_its_words(exchange):
    assert read(exchange)[2] == exchange.answer


@for_each(TAKEN, name=lambda each: each.name)
def test_what_the_real_server_takes_is_taken_with_its_warnings(exchange):
    _, warnings, wrong = read(exchange)

    assert wrong is None
    if exchange.status < 400:
        assert warnings == exchange.warnings


CREATED = [
    each for each in TAKEN if each.status == 201 and each.name not in ("type-zeros-claim", "cr-null", "make-pod")
]


@for_each(CREATED, name=lambda each: each.name)
def test_what_is_kept_is_what_the_real_server_writes_again(exchange):
    """Defaults come later, so the real answer may say more, and replace what is empty; but never less."""
    obj = read(exchange)[0]
    obj.get("metadata", {}).pop("deletionTimestamp", None)  # no creator's to set
    assert list(differences(obj, exchange.answer)) == []


def test_an_answer_of_the_real_server_is_read_unchanged():
    for exchange in CREATED:
        if not exchange.name.startswith("cr-") and "crd" not in exchange.name:
            codec = CODECS.for_kind(routes.resolve_path(exchange.path, CATALOG).kind)
            assert codec.normalize(exchange.answer) == (exchange.answer, [])


def test_fields_of_the_kep_are_kept_where_the_server_knows_them():
    exchange = EXCHANGES["type-claim-reserved-for"]
    kind = routes.resolve_path(exchange.path, CATALOG).kind

    obj, warnings = CodecFactory(Dialect.KEP).for_kind(kind).decode(exchange.raw, FieldValidation.STRICT)

    assert (obj["spec"]["reservedFor"]["name"], warnings) == ("j", [])


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"metadata":{"labels":['])
def test_what_is_nested_too_deeply_is_refused(opening):
    raw = b'{"metadata":' + opening.encode() * 5000

    with pytest.raises(StatusError, match="exceeded max depth"):
        CODECS.for_builtin("", "v1", "Pod").decode(raw, FieldValidation.WARN)


def test_bytes_that_are_no_utf8_are_replaced():
    raw = b'{"metadata":{"name":"a"},"data":{"x":"\xff"}}'

    assert CODECS.for_builtin("", "v1", "ConfigMap").decode(raw, FieldValidation.STRICT)[0]["data"] == {"x": "\ufffd"}


def test_a_pod_is_read_fast_enough():
    pod = EXCHANGES["type-zeros"].answer
    codec = CODECS.for_builtin("", "v1", "Pod")

    best = min(timeit.repeat(lambda: codec.normalize(pod), number=50, repeat=5)) / 50

    assert best < 500e-6  # 50 µs on an idle machine


def test_parts_that_a_patch_leaves_alone_are_kept_in_their_place():
    pod = CODECS.for_builtin("", "v1", "Pod")
    stored = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}, "status": {}}
    patched = stored | {"status": {"phase": "Running", "bogus": 1}}
    result, warnings = pod.decode_patch_result(patched, PatchContext({}), FieldValidation.WARN, stored=stored)
    assert result["spec"] is stored["spec"]
    assert list(result) == list(stored)
    assert (result["status"]["phase"], warnings) == ("Running", ['unknown field "status.bogus"'])
