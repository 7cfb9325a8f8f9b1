"""A day of three teams in a real Prometheus: ``kubectl dra usage --idle`` names the one that holds without using.

The day is played into Prometheus' own storage as a scrape each half minute would have left it, so that sums of hours
are checked in seconds. Not a part of CI, as all of this folder: `make prometheus`.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec
import pytest
from click.testing import CliRunner, Result

from dra.cli.kubectl.main import main
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.cli.prometheus import PrometheusAddress, ask_use
from dra.engine.device_usage.history import GROUPINGS, HELD_METRIC, LABELS, USED_METRIC
from dra.engine.device_usage.timelines import SPANS, Span
from tests.cluster.ports import LOOPBACK
from tests.cluster.run_folder import RunFolder
from tests.dra.engine.diagnosis.cluster_states import snapshot
from tests.scenarios.monitoring.conftest import RULES
from tests.scenarios.monitoring.prometheus import Prometheus, play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dra.engine.device_usage.over_time import UseOverTime

Usage: TypeAlias = "Callable[..., Result]"

pytestmark = [pytest.mark.cluster, pytest.mark.long]

HOUR: Final = 3600
DAY: Final = 24 * HOUR
SCRAPE: Final = 30
"""Seconds between two scrapes."""


class Phase(NamedTuple):
    """What a team holds and uses for a time; hours are counted back from now."""

    begin: float
    end: float
    held: int
    used: int


TEAMS: Final = {
    ("hoarders", "jobs.batch/keep"): [Phase(30, 20, 8, 8), Phase(20, 0, 8, 0)],
    ("workers", "jobs.batch/train"): [Phase(24, 0, 4, 4)],
    ("nights", "statefulsets.apps/notebook"): [Phase(22, 14, 2, 1), Phase(10, 3, 2, 2), Phase(3, 0, 2, 1)],
}
EXPECTED: Final = {
    "hoarders": {"held": 8, "used": 0, "heldHours": 192.0, "usedHours": 32.0, "idleHours": 160.0},
    "workers": {"held": 4, "used": 4, "heldHours": 96.0, "usedHours": 96.0, "idleHours": 0.0},
    "nights": {"held": 2, "used": 1, "heldHours": 36.0, "usedHours": 25.0, "idleHours": 11.0},
}
IDLE_FOR: Final = {"hoarders": 20, "workers": None, "nights": 3}
"""Hours for which a device of the team has been idle."""


def samples(now: float) -> Iterator[str]:
    """Yield the day in the text format, with a second replica and another cluster beside it."""
    for metric, number in ((HELD_METRIC, "held"), (USED_METRIC, "used")):
        yield f"# TYPE {metric} gauge"
        for (namespace, workload), phases in TEAMS.items():
            values = dict(zip(LABELS, (namespace, workload, "gpus"), strict=True))
            for extra, factor in (({"pod": "c-0"}, 1), ({"pod": "c-1"}, 1), ({"cluster": "other"}, 5)):
                labels = ",".join(f'{name}="{value}"' for name, value in {**values, "cluster": "this", **extra}.items())
                for phase in phases:
                    steps = range(int(now - phase.begin * HOUR), int(now - phase.end * HOUR), SCRAPE)
                    yield from (f"{metric}{{{labels}}} {getattr(phase, number) * factor} {at}" for at in steps)
    yield "# EOF"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a Prometheus that has the day."""
    with RunFolder() as folder:
        play(folder, name="day", until=samples)
        server = Prometheus(folder, name="day", scrape=[], rules=RULES)
        server.process.start()
        yield f"http://{LOOPBACK}:{server.port}"


@pytest.fixture
def usage(url: str, monkeypatch: pytest.MonkeyPatch) -> Usage:
    """Run the command for a user who may list the claims of all namespaces, or of one."""

    def run(*arguments: str, limited_to: str | None = None) -> Result:
        readable = msgspec.structs.replace(snapshot(), namespace=limited_to)
        monkeypatch.setattr(SnapshotSource, "read", lambda _self, _scope: readable)
        options = ["--prometheus", url, "--prometheus-label", "cluster=this", "-o", "json"]
        done = CliRunner().invoke(main, ["usage", "--idle", *options, *arguments])
        assert done.exit_code == 0, done.output
        return done

    return run


def items(done: Result) -> dict[str, dict[str, object]]:
    return {item["namespace"]: item for item in json.loads(done.stdout)["items"]}


def test_the_team_that_holds_without_using_comes_first_within_one_percent(usage: Usage) -> None:
    told = items(usage())
    assert list(told) == ["hoarders", "nights", "workers"]
    for team, numbers in EXPECTED.items():
        assert {name: told[team][name] for name in numbers} == pytest.approx(numbers, rel=0.01, abs=0.01)


def test_idle_since_is_told_to_the_minute(usage: Usage) -> None:
    for team, hours in IDLE_FOR.items():
        since = items(usage())[team]["idleSince"]
        if hours is None:
            assert since is None
        else:
            began = time.mktime(time.strptime(str(since), "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
            assert (time.time() - began) / HOUR == pytest.approx(hours, abs=0.06)


def test_a_shorter_history_has_its_own_hours(usage: Usage) -> None:
    told = items(usage("--since", "2h"))
    assert told["hoarders"]["idleHours"] == pytest.approx(16.0, rel=0.01)
    assert told["hoarders"]["idleSince"] is None, "longer ago than two hours"


def asked(url: str, *, by: str, span: Span, namespaces: frozenset[str] | None = None) -> UseOverTime:
    """Ask as the page does."""
    address = PrometheusAddress.parse(url)
    return asyncio.run(ask_use(address, by=by, span=span, namespaces=namespaces, labels={"cluster": "this"}))


@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
def test_the_time_lines_of_the_page_add_up_to_its_hours(url: str, by: str, span: Span) -> None:
    use = asked(url, by=by, span=span)
    assert len(use.rows) == (1 if by == "class" else 3)
    for row in use.rows:
        assert row.line is not None, row.name
        held, used = (sum(line) * span.period / HOUR for line in (row.line.held, row.line.used))
        assert (held, used) == pytest.approx((row.history.held_hours, row.history.used_hours), rel=0.01), row.name


def test_the_time_line_of_the_team_that_holds_without_using(url: str) -> None:
    row = asked(url, by="namespace", span=SPANS["24h"]).rows[0]
    assert row.line is not None
    assert (row.name, set(row.line.held)) == ("hoarders", {8.0})
    assert (row.line.used[0], row.line.used[-1]) == (8.0, 0.0)
    assert sum(number > 0 for number in row.line.used) == pytest.approx(4 * HOUR / SPANS["24h"].period, abs=1)


@pytest.mark.parametrize(
    ("namespaces", "names"),
    [
        pytest.param({"hoarders", "nights"}, ["hoarders", "nights"], id="two"),
        pytest.param({"h.*s", "nights"}, ["nights"], id="a-pattern-is-a-name"),
        pytest.param({"hoarders|workers", 'x"}', "nights"}, ["nights"], id="an-alternative-and-a-quote-too"),
        pytest.param({"x" * 1_990, "y" * 1_990, "nights"}, ["nights"], id="in-parts"),
        pytest.param(set(), [], id="none"),
    ],
)
def test_several_namespaces_have_their_own_histories(url: str, namespaces: set[str], names: list[str]) -> None:
    for by in ("namespace", "workload", "class"):
        use = asked(url, by=by, span=SPANS["24h"], namespaces=frozenset(namespaces))
        if by != "class":
            assert [row.name.split("/")[0] for row in use.rows] == names
        held = sum(float(str(EXPECTED[name]["heldHours"])) for name in names)
        assert sum(row.history.held_hours for row in use.rows) == pytest.approx(held, rel=0.01)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([], id="as-given"),
        pytest.param(["-n", 'workers"} or {claim_namespace=~".*'], id="a-quote"),
        pytest.param(["-n", ".*"], id="a-pattern"),
    ],
)
def test_a_tenant_sees_its_own_history_alone(usage: Usage, arguments: list[str]) -> None:
    assert items(usage(*arguments, limited_to="workers")).keys() == {"workers"}


@pytest.mark.parametrize(
    "name",
    [
        'x"} or {claim_namespace=~".*',
        ".*",
        "workers|hoarders",
        'x\\"} or vector(1)',
        "x\n} or vector(1)",
        "hoarders' or '",
    ],
    ids=["a-quote", "a-pattern", "two", "a-backslash", "a-line", "another-quote"],
)
def test_no_name_of_a_namespace_selects_others(usage: Usage, name: str) -> None:
    assert items(usage("-n", name)) == {}
