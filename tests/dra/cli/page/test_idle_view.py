"""The view "Idle" as the server draws it: names are text, and the numbers are those of the history."""

from __future__ import annotations

import pytest

from dra.cli.page.idle_view import SPAN_WORDS, TICKS, draw
from dra.engine.device_usage.groups import UsageGroup
from dra.engine.device_usage.history import GROUPINGS, GroupHistory
from dra.engine.device_usage.over_time import ROWS_MAX, tabulate
from dra.engine.device_usage.timelines import SPANS, Timeline

NOW = 1_795_000_000.0
DAY = SPANS["24h"]
HOARDER = UsageGroup("hoarders", "jobs.batch/keep", "gpus")
IDLE = GroupHistory(held=8, used=2, held_hours=1192.0, used_hours=48.0, idle_since=NOW - 5 * 3600)
LINE = Timeline(held=(0.0,) * 48 + (8.0,) * 48, used=(0.0,) * 72 + (2.0,) * 24)


def drawn(groups, lines=None, *, by="namespace", known_since=None):
    use = tabulate(by, groups, lines or {}, span=DAY, now=NOW, known_since=known_since)
    return draw(use, over="24h")


def elements(tree, name):
    """Yield the elements of a name, with all that is in them."""
    if isinstance(tree, list):
        if tree[0] == name:
            yield tree
        for child in tree[2:]:
            yield from elements(child, name)


def text(tree):
    return "".join(map(text, tree[2:])) if isinstance(tree, list) else str(tree)


def cells(tree):
    return [[text(cell) for cell in row[2:]] for body in elements(tree, "tbody") for row in elements(body, "tr")]


def test_a_row_has_held_used_and_since_when_the_rest_is_idle():
    (row,) = cells(drawn({HOARDER: IDLE}))
    assert row == ["hoarders", "8", "2", "6", "5h", "1,192.0", "48.0", "1,144.0", "4%", ""]


@pytest.mark.parametrize(
    ("history", "known_since", "since"),
    [
        pytest.param(GroupHistory(held=1), None, ">24h", id="longer-than-the-span"),
        pytest.param(GroupHistory(held=1), NOW - 1800, ">30m", id="longer-than-the-page-has-looked"),
        pytest.param(GroupHistory(held=1, used=1), None, "", id="not-idle"),
        pytest.param(GroupHistory(held=1, idle_since=NOW + 60), None, "0s", id="a-clock-that-is-ahead"),
    ],
)
def test_idle_since_says_no_more_than_is_known(history, known_since, since):
    (row,) = cells(drawn({HOARDER: history}, known_since=known_since))
    assert row[4] == since


def test_a_time_line_has_its_words_and_its_axis():
    tree = drawn({HOARDER: IDLE}, {"hoarders": LINE})
    line = next(svg for svg in elements(tree, "svg") if svg[1]["class"] == "lines")
    assert line[1]["aria-label"] == "Last 24 hours: held 8 now, at most 8.0; used 2 now, at most 2.0"
    paths = {path[1]["class"]: path[1]["d"] for path in elements(line, "path")}
    assert paths["held"] == "M0 30H48V0H96V30Z"
    assert paths["used"] == "M0 30H72V22.5H96V30Z"
    assert paths["tick"].startswith("M24 0V30M48")
    (axis,) = [span for span in elements(tree, "span") if span[1].get("class") == "ticks"]
    assert [text(tick) for tick in axis[2:]] == ["-24 h", "-18 h", "-12 h", "-6 h", "now"]


def test_an_empty_line_is_drawn_flat():
    flat = Timeline(held=(0.0,) * 96, used=(0.0,) * 96)
    (held, _) = [path[1]["d"] for path in elements(drawn({HOARDER: IDLE}, {"hoarders": flat}), "path")][1:]
    assert held == "M0 30H96V30Z"


HOSTILE = ['<img src=x onerror="alert(1)">', "a&b=c#d", "javascript:alert(1)", '"><script>']


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_text_and_never_an_element_or_an_address(name):
    tree = drawn({UsageGroup(name, name, name): IDLE}, {name: LINE})
    assert [row[0] for row in cells(tree)] == [name]
    known = {"div", "header", "h1", "p", "a", "span", "svg", "rect", "path", "title", "table", "thead", "tbody"}

    def names(part):
        return {part[0], *(name for child in part[2:] for name in names(child))} if isinstance(part, list) else set()

    assert names(tree) <= known | {"tr", "th", "td"}
    assert not [link for link in elements(tree, "a") if name in link[1]["href"]]


@pytest.mark.parametrize("by", GROUPINGS)
def test_grouping_and_time_are_links_and_the_present_one_is_marked(by):
    links = {text(link): link[1] for link in elements(drawn({}, by=by), "a")}
    assert [name for name, given in links.items() if "aria-current" in given] == [by, "24 hours"]
    assert links["7 days"]["href"] == f"#/idle?by={by}&over=7d"
    assert links["workload"]["href"] == "#/idle?over=24h&by=workload"


def test_without_a_prometheus_the_view_says_since_when_it_knows():
    (note,) = [span for span in elements(drawn({}, known_since=NOW - 600), "span") if span[1].get("role") == "note"]
    assert "2026-11-18 10:56 UTC" in text(note)
    assert "--prometheus" in text(note)
    assert not [span for span in elements(drawn({}), "span") if span[1].get("role") == "note"]


def test_what_has_no_row_is_one_sum():
    groups = {UsageGroup(f"team-{number}", "a", "b"): IDLE for number in range(ROWS_MAX + 2)}
    rows = cells(drawn(groups))
    assert (len(rows), rows[-1][:3]) == (ROWS_MAX + 1, ["2 more", "16", "4"])


def test_each_span_has_words_and_an_axis():
    assert SPANS.keys() == SPAN_WORDS.keys() == TICKS.keys()
    for name, span in SPANS.items():
        use = tabulate("class", {HOARDER: IDLE}, {"gpus": LINE}, span=span, now=NOW)
        assert cells(draw(use, over=name))


def test_no_devices_are_told_in_words():
    assert "No devices were held" in text(drawn({}))
