"""Server-side apply against a real API server: what becomes of the object, who owns it, who objects."""

from copy import deepcopy

import pytest

from dra.kube.transport import APPLY_PATCH
from localplane import query_options, routes
from localplane.codecs import CodecFactory
from localplane.patches import server_side_apply
from localplane.patches.server_side_apply import FieldManagerIdentity
from localplane.schemas import body_parser
from localplane.schemas.builtin_schemas import Dialect
from localplane.status_errors import StatusError
from tests.localplane.recorded import catalog, differences, lasting, named
from tests.violations import for_each_case

CATALOG = catalog()
CODECS = CodecFactory(Dialect.STOCK)

ELSEWHERE = {
    "apply-no-manager",  # options
    "apply-long-manager",
    "apply-cut",  # PyYAML has words of its own
    "apply-other-name",  # and these are the server's
    "apply-stale",
    "apply-uid",
    "apply-uid-absent",
    "apply-pod-status-absent",
    "apply-deployment-no-key",  # what follows is the business of validation
    "apply-deployment-empty",
    "apply-pod-status",
    "apply-pod-status-fewer",
    "apply-two-quantity-other",  # its causes are in no order
}


def author(exchange, route):
    manager = exchange.query.get("fieldManager", "")
    entries = exchange.answer.get("metadata", {}).get("managedFields", [])
    times = [each["time"] for each in entries if each["manager"] == manager and "time" in each]
    return FieldManagerIdentity(
        manager=manager,
        api_version=route.kind.api_version,
        subresource=route.subresource.name if route.subresource else "",
        time=times[0] if times else "9999",
        has_status_subresource=route.kind.subresource("status") is not None,
    )


def played():
    """Yield each recorded step with its route and what was there before."""
    store = {}
    for exchange in named("make-", "claim-allocate", "apply-"):
        route = routes.resolve_path(exchange.path, CATALOG)
        if route is None:  # deployments/scale
            continue
        key = route.kind.group_resource, route.name or exchange.answer["metadata"]["name"]
        yield exchange, route, deepcopy(store.get(key, {}))
        if exchange.status < 400 and "dryRun" not in exchange.query:
            store[key] = exchange.answer


STEPS = {exchange.name: (exchange, route, before) for exchange, route, before in played()}
APPLIED = [
    name for name, (exchange, _, _) in STEPS.items() if exchange.content_type == APPLY_PATCH and name not in ELSEWHERE
]


def applied(name):
    """Return the result of a recorded application and its record; raises `Refusal`."""
    exchange, route, before = STEPS[name]
    codec = CODECS.for_kind(route.kind)
    body, _ = body_parser.parse_yaml(exchange.raw)
    body = server_side_apply.check_applied_object(body, api_version=codec.api_version, kind=codec.kind)
    force = query_options.write_options(exchange.query, verb="Patch").force
    found = server_side_apply.apply_mutation(body, codec.schema, author(exchange, route), force=force)(before)
    record = found["metadata"].pop("managedFields", [])
    return codec.normalize(found)[0], record


def owners(record):
    return [{name: each for name, each in entry.items() if name != "time"} for entry in record]


@for_each_case([name for name in APPLIED if STEPS[name][0].status < 400])
def test_the_object_and_its_owners_are_those_of_the_real_server(name):
    exchange = STEPS[name][0]
    found, record = applied(name)

    assert list(differences(lasting(found), exchange.answer)) == []
    assert owners(record) == owners(exchange.answer["metadata"]["managedFields"])


@for_each_case([name for name in APPLIED if STEPS[name][0].status >= 400])
def test_what_the_real_server_refuses_is_refused_in_its_words(name):
    with pytest.raises(StatusError) as refused:
        applied(name)

    assert refused.value.status == STEPS[name][0].answer


@pytest.mark.parametrize("name", ["apply-update-takes-over", "apply-put", "apply-status-patch", "apply-put-reset"])
def test_who_changes_without_applying_takes_what_it_changes(name):
    exchange, route, before = STEPS[name]
    new = lasting(exchange.answer)
    if name == "apply-put-reset":
        new["metadata"]["managedFields"] = [{}]

    server_side_apply.update_managed_fields(new, before, CODECS.for_kind(route.kind).schema, author(exchange, route))

    assert owners(new["metadata"].get("managedFields", [])) == owners(
        exchange.answer["metadata"].get("managedFields", [])
    )


def test_what_is_no_longer_applied_is_gone():
    assert applied("apply-drop-field")[0]["data"] == {"a": "1"}
    assert "finalizers" not in applied("apply-deployment-fewer")[0]["metadata"]


CLAIM = CODECS.for_builtin("resource.k8s.io", "v1", "ResourceClaim").schema
ME = FieldManagerIdentity(manager="me", api_version="v1", time="later", has_status_subresource=True)


def test_the_same_again_changes_nothing():
    body = {"apiVersion": "v1", "kind": "ResourceClaim", "metadata": {"name": "c", "labels": {"a": "b"}}}
    once = server_side_apply.apply_mutation(body, CLAIM, ME)({})
    again = FieldManagerIdentity(manager="me", api_version="v1", time="much later", has_status_subresource=True)

    assert server_side_apply.apply_mutation(body, CLAIM, again)(deepcopy(once)) == once


def test_no_record_is_begun_by_an_update():
    new = {"metadata": {"name": "a", "managedFields": [{}]}, "data": {"a": "1"}}

    server_side_apply.update_managed_fields(new, {"metadata": {"name": "a"}}, CLAIM, ME)

    assert new == {"metadata": {"name": "a"}, "data": {"a": "1"}}
