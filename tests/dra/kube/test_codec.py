import json
import sys

import msgspec
import pytest

from dra.kube.codec import NESTING_MAX, codec_of, raise_recursion_limit
from dra.kube.resources import JOBS, PODS
from dra.model.meta import ObjectMeta, PartialObjectMetadata, Struct, UnstructuredObject
from tests.dra.kube.scripted import page, pod
from tests.violations import combinations, for_each_case


class Spec(Struct, frozen=True):
    replicas: int = 0


class Sized(Struct, frozen=True):
    metadata: ObjectMeta
    spec: Spec = Spec()


def sized(name, replicas):
    return {**pod(name), "spec": {"replicas": replicas}}


def decoded(model, *items, more=""):
    return codec_of(PODS, model).page(page(*items, more=more).body, first=True)


def test_a_page_has_items_a_version_and_a_token():
    got = decoded(Sized, sized("a", 1), sized("b", 2), more="next")
    assert [item.spec.replicas for item in got.items] == [1, 2]
    assert (got.resource_version, got.token, got.first) == ("10", "next", True)


@for_each_case(
    combinations(
        [Sized, PartialObjectMetadata, UnstructuredObject],
        [{"metadata": {}, "items": None}, {"metadata": {}}, {"metadata": {}, "items": []}],
    )
)
def test_a_list_of_nothing_may_be_null(model, body):
    assert codec_of(PODS, model).page(json.dumps(body).encode(), first=True).items == []


def test_one_object_that_does_not_fit_is_named_and_the_others_are_there():
    got = decoded(Sized, sized("a", 1), sized("b", "many"), sized("c", 3))
    assert [item.metadata.name for item in got.items] == ["a", "c"]
    assert [meta.key for meta in got.unreadable] == [("ml", "b")]


@for_each_case(combinations([Sized, UnstructuredObject], [b"<html>", b"[]", b'{"items": {}}', b'{"kind": "Status"}']))
def test_what_is_no_list_is_an_error(model, body):
    with pytest.raises(msgspec.DecodeError):
        codec_of(PODS, model).page(body, first=True)


def test_only_the_metadata_are_asked_for_where_only_they_are_read():
    codec = codec_of(PODS, PartialObjectMetadata)
    assert codec.accept_one.startswith("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
    assert codec.accept_list.startswith("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    assert codec_of(PODS, Sized).accept_one == "application/json"


def test_a_server_that_sends_whole_objects_all_the_same_is_understood():
    assert decoded(PartialObjectMetadata, sized("a", 1)).items[0].metadata.name == "a"


def test_an_object_of_any_kind_is_the_same_from_a_list_and_from_a_watch():
    listed = sized("a", 1)  # items of built-in kinds bear no kind
    watched = {"kind": "Job", "apiVersion": "batch/v1", **listed}
    codec = codec_of(JOBS, UnstructuredObject)
    one = codec.one(json.dumps(watched).encode())
    assert codec.page(page(listed).body, first=True).items == [one]
    assert one.content["kind"] == "Job"
    assert one.content["spec"] == {"replicas": 1}
    assert one.metadata.uid == "uid-a"


def test_managed_fields_are_not_kept():
    got = decoded(UnstructuredObject, pod("a", managedFields=[{"manager": "x"}]))
    assert "managedFields" not in got.items[0].content["metadata"]


def test_an_object_of_any_kind_without_metadata_does_not_fit():
    with pytest.raises(msgspec.ValidationError):
        codec_of(JOBS, UnstructuredObject).one(b"{}")


@pytest.fixture
def usual_limit():
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("usual_limit")
@pytest.mark.parametrize("model", [Sized, PartialObjectMetadata, UnstructuredObject])
def test_what_is_nested_as_deep_as_an_api_server_allows_can_be_read(model):
    raise_recursion_limit()
    deep = f'{{"metadata": {{"name": "a"}}, "parameters": {"[" * NESTING_MAX}{"]" * NESTING_MAX}}}'.encode()
    assert codec_of(PODS, model).one(deep).metadata.name == "a"
    listed = codec_of(PODS, model).page(b'{"metadata": {}, "items": [' + deep + b"]}", first=True)
    assert len(listed.items) == 1
