"""The comparison of two surfaces can fail, says what broke, and lets additions pass."""

from __future__ import annotations

import copy

import pytest

from tests.older_build.compatibility import breaks

SURFACE = {
    "keys": {"reserve.dra/reserved-for": {}},
    "metrics": {"Of the controller: dra_reserve_writes_total": {"type": "counter", "labels": "`write`, `code`"}},
    "reasons": {"Of claims: Deallocated": {"type": "Normal", "means": "The devices are free."}},
    "configuration": {"Of the controller: mode": {"default": "`alongside`", "or else": "`replace`"}},
    "commands": {
        "dra-reserve controller": {},
        "dra-reserve controller --mode": {"choices": ["replace", "alongside"], "required": False, "flag": False},
    },
    "crds": {
        "reservations v1alpha1": {"served": True},
        "reservations v1alpha1.spec": {"type": "object", "required": True},
        "reservations v1alpha1.spec.ttl": {"type": "string", "limits": {"maxLength": 64}, "enum": ["a", "b"]},
    },
}
METRIC = "Of the controller: dra_reserve_writes_total"


def changed(section, name, **fields):
    new = copy.deepcopy(SURFACE)
    new[section].setdefault(name, {}).update(fields)
    return new


def without(section, name):
    new = copy.deepcopy(SURFACE)
    del new[section][name]
    return new


@pytest.mark.parametrize(
    ("new", "lines"),
    [
        pytest.param(SURFACE, [], id="the-same"),
        pytest.param(
            without("keys", "reserve.dra/reserved-for"), ["keys: reserve.dra/reserved-for is gone"], id="key-gone"
        ),
        pytest.param(without("metrics", METRIC), [f"metrics: {METRIC} is gone"], id="metric-gone"),
        pytest.param(
            changed("metrics", METRIC, type="gauge"),
            [f"metrics: {METRIC}: type is 'gauge', and was 'counter'"],
            id="metric-of-another-type",
        ),
        pytest.param(
            changed("metrics", METRIC, labels="`code`, `mode`"),
            [f"metrics: {METRIC}: labels no longer has write"],
            id="label-gone",
        ),
        pytest.param(
            changed("reasons", "Of claims: Deallocated", type="Warning"),
            ["reasons: Of claims: Deallocated: type is 'Warning', and was 'Normal'"],
            id="reason-of-another-type",
        ),
        pytest.param(
            changed("configuration", "Of the controller: mode", **{"or else": ""}),
            ["configuration: Of the controller: mode: no longer takes replace"],
            id="value-refused",
        ),
        pytest.param(
            changed("configuration", "Of the controller: mode", default="`replace`", **{"or else": "`alongside`"}),
            ["configuration: Of the controller: mode: default is '`replace`', and was '`alongside`'"],
            id="another-default",
        ),
        pytest.param(
            changed("commands", "dra-reserve controller --lease", required=True),
            ["commands: dra-reserve controller --lease is new and required"],
            id="new-required-option",
        ),
        pytest.param(
            changed("crds", "reservations v1alpha1.spec.ttl", limits={"maxLength": 8}, enum=["a"]),
            [
                "crds: reservations v1alpha1.spec.ttl: enum no longer has b",
                "crds: reservations v1alpha1.spec.ttl: maxLength is 8, and was 64",
            ],
            id="narrower-field",
        ),
        pytest.param(
            changed("crds", "reservations v1alpha1.spec.node", type="string", required=True),
            ["crds: reservations v1alpha1.spec.node is new and required"],
            id="new-required-field",
        ),
        pytest.param(
            changed("crds", "reservations v1alpha1.spec.ttl", limits={}, enum=["a", "b", "c"]), [], id="wider-field"
        ),
        pytest.param(changed("keys", "reserve.dra/new"), [], id="new-key"),
    ],
)
def test_what_a_change_of_the_surface_breaks(new, lines):
    assert breaks(SURFACE, new) == lines


def test_an_intended_break_is_none():
    assert breaks(SURFACE, without("metrics", METRIC), intended={"writes_total is gone$": "nobody used it"}) == []
