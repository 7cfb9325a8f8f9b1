"""The policies in deploy/colocation-profiles are those that the engine makes."""

import re

import yaml

from dra.cli import profile_policies
from dra.engine.profiles import guard
from dra.engine.translation import classes


def test_the_policies_are_those_of_the_engine():
    there = profile_policies.POLICIES_FILE.read_text(encoding="utf-8")
    assert there == profile_policies.policies(), "run: python -m dra.cli.profile_policies"


def test_no_operation_has_a_list_of_objects_as_its_value():
    """Such a list panics the API server of Kubernetes 1.36 (koordinator-rest.md, 0.3)."""
    mutating, *_ = yaml.safe_load_all(profile_policies.policies())
    (mutation,) = mutating["spec"]["mutations"]
    assert re.findall(r"value: \[", mutation["jsonPatch"]["expression"]) == []


def test_the_policies_know_each_text_of_the_engine():
    text = profile_policies.policies()
    texts = (guard.PLAIN_TEXT, guard.POD_LEVEL_TEXT, *guard.UNITS.values(), classes.BATCH_TEXT)
    assert [each for each in texts if each not in text] == []


def test_a_missing_profile_lets_pods_pass_and_a_missing_guard_does_not():
    """Pods without their profile run as they were written; a batch pod that nobody counts must not run."""
    mutating, _, refusing, *_ = yaml.safe_load_all(profile_policies.policies())
    assert (mutating["spec"]["failurePolicy"], refusing["spec"]["failurePolicy"]) == ("Ignore", "Fail")
    for each in (mutating, refusing):
        (rule,) = each["spec"]["matchConstraints"]["resourceRules"]
        assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])
