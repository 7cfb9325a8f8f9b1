"""What `kubectl dra deschedule --dry-run` prints about a round."""

# ruff: noqa: ARG002 - a plugin need not use what it is given

import json

import pytest

from dra.cli.kubectl.descheduling.round_table import RoundReport, print_round, summary
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat
from dra.cli.kubectl.resource_table import SELECT_ALL
from dra.engine.descheduling.round import Limits
from tests.dra.engine.descheduling.rounds import Naming, SlotSnapshot, play, pod, profile


class Failing(Naming):
    def deschedule(self, snapshot, args):
        raise RuntimeError("broken")


class Noting(Naming):
    def deschedule(self, snapshot, args):
        yield from ()
        return "all nodes are underutilized"


CONFIGURATION = "the configuration is that of d.yaml"


def report(*plugins, names="abcdef", limits=None, slots=None, **more):
    pods = [pod(name) for name in names] + [pod("z", node="n2")]
    profiles = [profile(*plugins)]
    result, _ = play(SlotSnapshot(pods, slots=slots or {}), *profiles, limits=limits)
    return RoundReport(result=result, profiles=profiles, configuration=CONFIGURATION, **more)


def printed(capsys, found, fmt=OutputFormat.TABLE, **more):
    print_round(found, selectors=SELECT_ALL, output=PrintOptions(format=fmt, **more))
    return capsys.readouterr().out


def test_who_goes_has_a_row_with_both_nodes_the_plugin_and_the_reason(capsys):
    assert printed(capsys, report(Naming("a"))).splitlines() == [
        "POD    FROM   TO   PLUGIN   WHY",
        "ns/a   n1     n2   Naming   Naming says so",
    ]


def test_who_needs_no_place_says_that_none_is_held(capsys):
    (_, row) = printed(capsys, report(Naming("a", needs_place=False))).splitlines()
    assert row == "ns/a   n1     <none>   Naming   Naming says so; no place is held"


def test_who_stays_is_told_by_reason_below(capsys):
    lines = printed(capsys, report(Naming(*"abcdef"), limits=Limits(per_node=1))).splitlines()
    assert lines[2] == ""
    assert lines[3].startswith("  limit     5 pods (ns/b, ns/c, ns/d and 2 more), named by Naming: node n1: 1 evicted")
    assert len(lines) == 4


def test_who_fits_nowhere_stays_with_the_reason_of_the_nodes(capsys):
    (line,) = printed(capsys, report(Naming("a"), slots={"n2": 1})).splitlines()
    assert line.startswith("  no place  pod ns/a, named by Naming: fits on no")


@pytest.mark.parametrize(
    ("found", "line"),
    [
        pytest.param(
            report(Failing()),
            "  fault     profile p: plugin Naming is skipped for the rest of the round: RuntimeError: broken",
            id="a-plugin-that-raises",
        ),
        pytest.param(
            report(Noting()), "  note      profile p: Naming: all nodes are underutilized", id="nothing-to-do"
        ),
        pytest.param(report(warnings=("bands overlap",)), "  warning   bands overlap", id="of-the-configuration"),
        pytest.param(report(unknown=("nodes: forbidden",)), "  unknown   nodes: forbidden", id="not-read"),
    ],
)
def test_what_the_round_did_not_do_is_told(capsys, found, line):
    assert line in printed(capsys, found).splitlines()


def test_structured_output_has_who_stays_and_all_notes_beside_who_goes(capsys):
    found = report(Naming("a", "b"), Noting(name="Other"), limits=Limits(total=1))
    content = json.loads(printed(capsys, found, OutputFormat.JSON))
    (item,) = content["items"]
    assert (item["metadata"]["name"], item["from"], item["to"], item["evictor"]) == (
        "a",
        "n1",
        "n2",
        "MigrationController",
    )
    (stays,) = content["staying"]
    assert (stays["metadata"]["name"], stays["refusal"]) == ("b", "TotalLimit")
    assert content["notes"] == ["profile p: Other: all nodes are underutilized"]
    assert content["configuration"] == CONFIGURATION


def test_names_are_those_of_pods_that_go(capsys):
    assert printed(capsys, report(Naming("a", "b"), limits=Limits(per_node=1)), OutputFormat.NAME) == "pod/a\n"


def test_wide_shows_profile_evictor_and_the_number_of_receivers(capsys):
    found = report(Naming("a", receivers=frozenset({"n2"})))
    assert printed(capsys, found, OutputFormat.WIDE).splitlines()[1].split()[-3:] == ["p", "MigrationController", "1"]


def test_the_summary_counts_pods_and_says_that_nothing_was_changed():
    found = report(Naming("a", "b", "b"), limits=Limits(per_node=1))
    assert summary(found) == f"1 of 2 candidates would go; nothing was changed; {CONFIGURATION}"
