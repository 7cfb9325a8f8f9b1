"""Text that cannot command a terminal: whoever writes an annotation or a name must not draw on somebody's screen.

Control characters are written as escapes of four digits, which JSON reads as the character that it was.
"""

import re
from typing import Final

_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""C0 and C1 but for tab and newline, and what some take for the end of a line."""

_DIRECTION_MARKS: Final = re.compile(r"[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What makes text look like other text, by turning the direction in which it is read."""

_COLOUR_SEQUENCES: Final = re.compile(r"(\x1b\[(?:0|1|3[0-7]|9[0-7])m)")
"""The sequences that we write ourselves; what is between two of them does no harm."""


def escape_line(text: str) -> str:
    """Return the text with all control characters, newlines included, written out: one line of a log."""
    return _DIRECTION_MARKS.sub(_escape, _CONTROL_CHARACTERS.sub(_escape, text).replace("\n", "\\n"))


def escape_terminal(text: str, *, on_a_terminal: bool) -> str:
    """Return the text as it may be printed: lines, tabs and colours stay.

    Marks of direction stay where nobody looks: data in a pipe are not changed but for what no data have.
    """
    parts = _COLOUR_SEQUENCES.split(text) if "\x1b" in text else [text]
    for place in range(0, len(parts), 2):
        parts[place] = _CONTROL_CHARACTERS.sub(_escape, parts[place])
        if on_a_terminal:
            parts[place] = _DIRECTION_MARKS.sub(_escape, parts[place])
    return "".join(parts)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
