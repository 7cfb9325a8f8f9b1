"""Koordinator's LowNodeLoad answers as ours does, or differs as is known; its answers are recorded."""

import json
from collections import Counter

import pytest

from tests.low_node_load import cases, judge
from tests.low_node_load.__main__ import ANSWERS, RECORDED
from tests.low_node_load.differences import known

ALWAYS_THE_SAME = 20
"""Recorded clusters in which no difference is known and some pod goes: fewer would prove little."""


@pytest.fixture(scope="module")
def answers():
    recorded = json.loads(ANSWERS.read_text(encoding="utf-8"))
    assert len(recorded) == RECORDED
    return [[tuple(pods) for pods in answer] for answer in recorded]


def test_the_same_pods_go_or_the_difference_is_known(answers):
    different, counts = [], Counter()
    for seed, theirs in enumerate(answers):
        question = cases.question(seed)
        ours = judge.ours(question)
        if ours in theirs:
            counts["same"] += 1
            counts["proven"] += bool(ours) and not known(question)
        elif not known(question):
            different.append((seed, ours, theirs))
    assert not different
    assert counts["proven"] >= ALWAYS_THE_SAME
    assert counts["same"] >= RECORDED * 3 // 4


def test_with_node_fit_no_receiver_is_above_its_threshold_afterwards():
    moved = 0
    for seed in range(RECORDED):
        question = cases.question(seed)
        args = question["args"]
        if not args["nodeFit"] or args.get("useDeviationThresholds"):
            continue
        landed = judge.landings(question)
        moved += sum(map(len, landed.values()))
        for node, pods in landed.items():
            assert judge.cpu_percent(question, node, pods) <= args["highThresholds"]["cpu"], (seed, node)
    assert moved > RECORDED // 4
