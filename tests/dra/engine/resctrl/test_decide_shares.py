"""Shares of the classes, from the ConfigMap to the lines of the kernel."""

import json

import pytest

from dra.api.colocation.slo_configuration import OFF, read_slo_configuration
from dra.engine.resctrl.actions import WriteLine
from dra.engine.resctrl.decide import ClassShare, ResctrlView, class_shares, decide
from dra.engine.resctrl.groups import ResctrlGroup
from dra.engine.resctrl.tree import ControlGroup, ResctrlTree
from tests.dra.engine.resctrl import machines
from tests.dra.engine.resctrl.fake_kernel import FakeKernel
from tests.dra.engine.resctrl.machines import Machine

BE, LS, LSR = ResctrlGroup.BE, ResctrlGroup.LS, ResctrlGroup.LSR

RELEASE_NOTES = """\
    {
      "clusterStrategy": {
        "lsClass": {
           "resctrlQOS": {
             "enable": true,
             "catRangeStartPercent": 0,
             "catRangeEndPercent": 100,
             "MBAPercent": 100
           }
         },
        "beClass": {
           "resctrlQOS": {
             "enable": true,
             "catRangeStartPercent": 0,
             "catRangeEndPercent": 30,
             "MBAPercent": 100
           }
         }
      }
    }
"""
"""The value of ``resource-qos-config`` in the release notes of Koordinator 1.2, verbatim."""


def shares(text, labels=()):
    configuration = read_slo_configuration({"resource-qos-config": text})
    return class_shares(configuration.qos_strategy(dict(labels))), configuration.problems


@pytest.mark.parametrize(
    ("machine", "lines"),
    [
        pytest.param(
            Machine({**machines.INTEL.files, "schemata": "    L3:0=3ff\n    MB:0=100\n"}),
            {LS: ["L3:0=3ff", "MB:0=100"], BE: ["L3:0=7", "MB:0=100"]},
            id="intel-with-ten-ways",
        ),
        pytest.param(
            Machine(
                {**machines.AMD.files, "info/L3/cbm_mask": "3ff", "schemata": "    L3:0=3ff\n    MB:0=2048\n"},
                vendor="AuthenticAMD",
            ),
            {LS: ["L3:0=3ff", "MB:0=2048"], BE: ["L3:0=7", "MB:0=2048"]},
            id="amd-where-2048-is-no-limit",
        ),
    ],
)
def test_the_manifest_of_the_release_notes_gives_the_lines_of_the_release_notes(machine, lines):
    enabled, problems = shares(RELEASE_NOTES)
    assert problems == ()
    tree = FakeKernel(machine).read_tree()
    other = ControlGroup(schemata="    MB:0=  10\n    L3:0=001\n")  # so that every line differs
    view = ResctrlView(tree=_with_groups(tree, dict.fromkeys((LS, BE), other)), shares=enabled, recorded={LS, BE})
    written = [action for action in decide(view).actions if isinstance(action, WriteLine)]
    assert {group: [each.line.strip() for each in written if each.group is group] for group in (LS, BE)} == lines


def _with_groups(tree: ResctrlTree, groups):
    return type(tree)(**{name: getattr(tree, name) for name in tree.__struct_fields__} | {"groups": groups})


def test_without_fields_the_defaults_of_koordinator_count():
    text = json.dumps({"clusterStrategy": {f"{name}Class": {"resctrlQOS": {"enable": True}} for name in ("lsr", "be")}})
    assert shares(text)[0] == {LSR: ClassShare(), BE: ClassShare(cache_end=30)}


def test_off_is_no_share_at_all():
    assert class_shares(OFF.qos_strategy({})) == {}


def test_a_node_strategy_changes_what_it_names_and_only_for_its_nodes():
    text = json.dumps(
        {
            "clusterStrategy": {"beClass": {"resctrlQOS": {"enable": True, "mbaPercent": 60}}},
            "nodeStrategies": [
                {
                    "name": "small",
                    "nodeSelector": {"matchLabels": {"cache": "small"}},
                    "beClass": {"resctrlQOS": {"catRangeEndPercent": 50}},
                },
                {
                    "name": "off",
                    "nodeSelector": {"matchLabels": {"cache": "off"}},
                    "beClass": {"resctrlQOS": {"enable": False}},
                },
            ],
        }
    )
    assert shares(text)[0] == {BE: ClassShare(cache_end=30, bandwidth=60)}
    assert shares(text, {"cache": "small"}.items())[0] == {BE: ClassShare(cache_end=50, bandwidth=60)}
    assert shares(text, {"cache": "off"}.items())[0] == {}


def test_the_example_of_koordinators_manual_lacks_a_comma_and_what_was_good_stays():
    good = read_slo_configuration({"resource-qos-config": RELEASE_NOTES})
    bad = RELEASE_NOTES.replace('"enable": true,', '"enable": true', 1)
    now = read_slo_configuration({"resource-qos-config": bad}, last=good)
    assert [problem.key for problem in now.problems] == ["resource-qos-config"]
    assert class_shares(now.qos_strategy({})) == class_shares(good.qos_strategy({}))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param({"catRangeStartPercent": 30}, id="start-is-the-default-end"),
        pytest.param({"catRangeStartPercent": -10}, id="negative"),
        pytest.param({"catRangeEndPercent": 101}, id="more-than-all"),
        pytest.param({"mbaPercent": 101}, id="bandwidth-more-than-all"),
        pytest.param({"mbaPercent": "60%"}, id="bandwidth-as-text"),
    ],
)
def test_a_bad_percentage_is_refused_before_it_reaches_a_node(text):
    enabled, problems = shares(json.dumps({"clusterStrategy": {"beClass": {"resctrlQOS": {"enable": True, **text}}}}))
    assert enabled == {}
    assert problems
