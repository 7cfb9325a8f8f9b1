"""The policies in deploy/koordinator are those that the engine makes."""

import re

import yaml

from dra.cli import translation_policies
from dra.engine.translation import classes, cpu_requests, device_rules, gpu_requests


def test_the_policies_are_those_of_the_engine():
    there = translation_policies.POLICIES_FILE.read_text(encoding="utf-8")
    assert there == translation_policies.policies(), "run: python -m dra.cli.translation_policies"


def test_no_operation_has_a_list_of_objects_as_its_value():
    """Such a list panics the API server (koordinator-rest.md, 0.3)."""
    mutating, *_ = yaml.safe_load_all(translation_policies.policies())
    (mutation,) = mutating["spec"]["mutations"]
    assert re.findall(r"value: \[(?!\])", mutation["jsonPatch"]["expression"]) == []


def test_the_policies_know_each_text_of_the_engine():
    text = translation_policies.policies().replace("\\'", "'").replace("' + variables.qos + '", "{qos}")
    texts = (
        classes.BATCH_TEXT,
        *(cpu_requests.WHOLE_TEXT, cpu_requests.LIMIT_TEXT, cpu_requests.DECLARED_TEXT),
        *(gpu_requests.UNSUPPORTED_TEXT, gpu_requests.UNEQUAL_TEXT, gpu_requests.TWICE_TEXT, gpu_requests.SET_TEXT),
        *(gpu_requests.UNIT_TEXT, gpu_requests.CARDS_TEXT, gpu_requests.NAME_TEXT),
        *gpu_requests.AMOUNT_TEXTS.values(),
        *(device_rules.HINT_TEXT, device_rules.SCOPE_TEXT, device_rules.RULE_TEXT, device_rules.PROVIDER_TEXT),
    )
    assert [each for each in texts if each not in text] == []
