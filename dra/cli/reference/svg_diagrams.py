"""Draws diagrams as SVG: a chain of steps from top to bottom, and states in a row with the transitions between them.

GitHub and the built site show the files as they are, without a script that is loaded from elsewhere.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

StateTransition = tuple[str, str]

_CHARACTER: Final = 7.2
_LINE: Final = 17
_PADDING: Final = 12
_STYLE: Final = (
    "<style>text{font:13px sans-serif;fill:#222}.name{font-weight:bold}.label{font-size:12px;fill:#444}"
    ".box{fill:#eef1fb;stroke:#4051b5}.end{fill:#e8f3ea;stroke:#2e7d32}"
    ".move{fill:none;stroke:#555;stroke-width:1.3;marker-end:url(#tip)}</style>"
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>'
)


def draw_chain(steps: Mapping[str, str]) -> str:
    """Return a diagram of steps with descriptions, from top to bottom."""
    indent = max(map(len, steps)) * _CHARACTER + 4 * _PADDING
    width, top, parts = indent + 640, _PADDING, list[str]()
    for number, (name, text) in enumerate(steps.items()):
        lines = textwrap.wrap(text, 92)
        height = len(lines) * _LINE + _PADDING
        if number:
            parts.append(f'<path class="move" d="M{width / 2} {top - _PADDING}V{top}"/>')
        parts.append(
            f'<rect class="box" x="{_PADDING}" y="{top}" width="{width - 2 * _PADDING}" height="{height}" rx="4"/>'
        )
        parts.append(_svg_text(2 * _PADDING, top + _LINE, name, kind="name"))
        parts += [_svg_text(indent, top + _LINE * (row + 1), line) for row, line in enumerate(lines)]
        top += height + _PADDING
    return _svg_document(width, top, parts)


def draw_states(
    names: Sequence[str], moves: Mapping[StateTransition, str], *, first: Sequence[str], last: Sequence[str]
) -> str:
    """Return a diagram of states in a row, with transitions to the right above the row and those to the left below."""
    wide, gap, tall = 110.0, 90.0, 36.0
    left = {name: gap / 2 + number * (wide + gap) for number, name in enumerate(names)}
    spans = {move: names.index(move[1]) - names.index(move[0]) for move in moves}
    above = 34.0 * max(spans.values()) + 20
    below = 34.0 * -min(0, *spans.values()) + 20
    parts = [
        f'<rect class="{"end" if name in last else "box"}" x="{x}" y="{above}" width="{wide}" height="{tall}" rx="6"/>'
        + _svg_text(x + wide / 2, above + 23, name, kind="name", middle=True)
        for name, x in left.items()
    ]
    for name in first:
        x = left[name] + 14
        parts.append(f'<circle cx="{x}" cy="{above + tall + 22}" r="5" fill="#555"/>')
        parts.append(f'<path class="move" d="M{x} {above + tall + 17}V{above + tall}"/>')
    for move, label in moves.items():
        parts += _draw_transition(left[move[0]], left[move[1]], label, span=spans[move], row=(above, tall, wide))
    return _svg_document(gap + len(names) * (wide + gap) - gap, above + tall + max(below, 34), parts)


def _draw_transition(
    start: float, end: float, label: str, *, span: int, row: tuple[float, float, float]
) -> Iterator[str]:
    """Yield a transition: straight to the next state on the right, else an arc, higher the further it goes."""
    top, tall, wide = row
    if span == 1:
        yield f'<path class="move" d="M{start + wide} {top + tall / 2}H{end}"/>'
        yield _svg_text((start + wide + end) / 2, top + tall / 2 - 6, label, kind="label", middle=True)
        return
    up = span > 0
    edge = top if up else top + tall
    peak = edge - 34 * span
    begin, stop = start + wide * (0.6 if up else 0.4), end + wide * (0.4 if up else 0.6)
    bend = edge + (peak - edge) * 4 / 3
    yield f'<path class="move" d="M{begin} {edge}C{begin} {bend} {stop} {bend} {stop} {edge}"/>'
    yield _svg_text((begin + stop) / 2, peak - 5 if up else peak + 14, label, kind="label", middle=True)


def _svg_text(x: float, y: float, text: str, *, kind: str = "", middle: bool = False) -> str:
    anchor = ' text-anchor="middle"' if middle else ""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}"{anchor}>{escape(text)}</text>'


def _svg_document(width: float, height: float, parts: Sequence[str]) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        _STYLE,
        '<rect width="100%" height="100%" fill="#fff"/>',
    )
    return "\n".join((*lines, *parts, "</svg>")) + "\n"
