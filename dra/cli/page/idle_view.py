"""The view "Idle" as a tree of elements: who holds devices without using them, since when, and for how long.

The server draws, so that the page needs no script for it: an element is a list of its name, its attributes and its
children, and text is a string, which a browser never reads as markup. Names that users choose are text, or parts of
an address that are quoted.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from dra.cli.kubectl.reservations.reservation_describer import human_duration
from dra.engine.device_usage.history import GROUPINGS, GroupHistory
from dra.engine.device_usage.over_time import UseOverTime, UseRow
from dra.engine.device_usage.timelines import Span, Timeline

Element = list[Any]

HEIGHT: Final = 30
"""Height of a time line, in its own units; a period is one unit wide."""

TICKS: Final = {"24h": (24, 18, 12, 6), "7d": (7, 6, 5, 4, 3, 2, 1)}
"""Span → the times of the axis before now, in hours or days."""

SPAN_WORDS: Final = {"24h": "24 hours", "7d": "7 days"}

NO_PROMETHEUS: Final = (
    "Before, the page did not look. For all of the time, name the Prometheus that scrapes the controller: "
    "kubectl dra ui --prometheus URL, or page.prometheus.url of the chart."
)

_COLUMNS: Final = ("HELD", "USED", "IDLE", "IDLE SINCE", "HELD HOURS", "USED HOURS", "IDLE HOURS", "USED %")


def draw(use: UseOverTime, *, over: str) -> Element:
    """Return the view of a span that ``over`` names."""
    rows = [_row(use, row, over=over) for row in use.rows]
    if use.rest_number:
        name = f"{use.rest_number:,} more"
        rows.append(_row(use, UseRow(name=name, history=use.rest, line=None), over=over))
    return [
        "div",
        {"class": "idle"},
        [
            "header",
            {"class": "head"},
            ["h1", {}, "Idle"],
            _choice("Group by", {name: name for name in GROUPINGS}, "by", use.by, {"over": over}),
            _choice("Time", SPAN_WORDS, "over", over, {"by": use.by}),
        ],
        ["p", {"class": "legend"}, *_legend(use)],
        _table(use, rows, over=over) if rows else _nothing(),
    ]


def _choice(label: str, names: dict[str, str], parameter: str, current: str, rest: dict[str, str]) -> Element:
    links = [
        [
            "a",
            {
                "class": "chip",
                "href": f"#/idle?{urlencode({**rest, parameter: value})}",
                **({"aria-current": "true"} if value == current else {}),
            },
            text,
        ]
        for value, text in names.items()
    ]
    return ["div", {"class": "tabs", "role": "group", "aria-label": label}, *links]


def _legend(use: UseOverTime) -> Iterator[Element]:
    yield _key("green", "used", "used by pods")
    yield _key("blue", "held", "held, not used")
    yield ["span", {}, "A time line is as high as the most that its group has held."]
    if use.known_since is not None:
        since = datetime.fromtimestamp(use.known_since, UTC).strftime("%Y-%m-%d %H:%M UTC")
        yield ["span", {"role": "note"}, f"Seen since {since}. {NO_PROMETHEUS}"]


def _key(tone: str, name: str, text: str) -> Element:
    box: Element = ["svg", {"class": "lines box", "viewBox": "0 0 1 1", "aria-hidden": "true"}]
    return ["span", {"class": f"state {tone}"}, [*box, ["rect", {"class": name, "width": 1, "height": 1}]], text]


def _table(use: UseOverTime, rows: list[Element], *, over: str) -> Element:
    label = f"Devices by {use.by} in the last {SPAN_WORDS[over]}"
    heads: list[Element] = [["th", {"scope": "col", "class": "name"}, use.by.upper()]]
    heads += [["th", {"scope": "col", "class": "number"}, column] for column in _COLUMNS]
    heads.append(["th", {"scope": "col"}, _axis(over)])
    table: Element = ["table", {"aria-label": label}, ["thead", {}, ["tr", {}, *heads]], ["tbody", {}, *rows]]
    return ["div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": label}, table]


def _axis(over: str) -> Element:
    unit = over[-1]
    ticks = [["span", {}, f"-{number} {unit}"] for number in TICKS[over]]
    words = f"TIME LINE from {SPAN_WORDS[over]} ago to now"
    return ["span", {"class": "ticks", "role": "img", "aria-label": words}, *ticks, ["span", {}, "now"]]


def _row(use: UseOverTime, row: UseRow, *, over: str) -> Element:
    history = row.history
    percent = f"{100 * history.used_hours / history.held_hours:.0f}%" if history.held_hours else ""
    hours = (history.held_hours, history.used_hours, history.idle_hours)
    cells = (
        *(f"{number:,}" for number in (history.held, history.used, history.idle)),
        _idle_since(use, history),
        *(f"{number:,.1f}" for number in hours),
        percent,
    )
    return [
        "tr",
        {"key": row.name},
        ["th", {"scope": "row", "title": row.name}, row.name],
        *(["td", {"class": "number"}, cell] for cell in cells),
        ["td", {}, *([] if row.line is None else [_line(row.line, history, use.span, over)])],
    ]


def _idle_since(use: UseOverTime, history: GroupHistory) -> str:
    if not history.idle:
        return ""
    if history.idle_since is not None:
        return human_duration(max(use.now - history.idle_since, 0.0))
    known = use.span.seconds if use.known_since is None else min(use.span.seconds, use.now - use.known_since)
    return f">{human_duration(max(known, 0.0))}"


def _line(line: Timeline, history: GroupHistory, span: Span, over: str) -> Element:
    peak, most_used = max(line.held), max(line.used)
    text = f"held {history.held} now, at most {peak:.1f}; used {history.used} now, at most {most_used:.1f}"
    hour = 86_400 if over[-1] == "d" else 3_600
    ticks = [span.periods - number * hour // span.period for number in TICKS[over][1:]]
    return [
        "svg",
        {
            "class": "lines",
            "viewBox": f"0 0 {span.periods} {HEIGHT}",
            "preserveAspectRatio": "none",
            "role": "img",
            "aria-label": f"Last {SPAN_WORDS[over]}: {text}",
        },
        ["title", {}, text],
        ["path", {"class": "tick", "d": "".join(f"M{tick} 0V{HEIGHT}" for tick in ticks)}],
        ["path", {"class": "held", "d": _area(line.held, peak)}],
        ["path", {"class": "used", "d": _area(line.used, peak)}],
    ]


def _area(values: tuple[float, ...], peak: float) -> str:
    """Return the outline of steps; the line of each group has its own height."""
    path, before = [f"M0 {HEIGHT}"], 0.0
    for index, value in enumerate(values):
        if value != before:
            path.append(f"H{index}V{round(HEIGHT * (1 - min(value, peak) / peak), 1):g}" if peak else "")
            before = value
    return "".join([*path, f"H{len(values)}V{HEIGHT}Z"])


def _nothing() -> Element:
    return [
        "div",
        {"class": "empty"},
        ["p", {"class": "empty-title"}, "No devices were held"],
        ["p", {}, "A group appears here once its claims have had devices."],
    ]
