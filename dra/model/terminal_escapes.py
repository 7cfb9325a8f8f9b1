"""Escapes for text that must not control a terminal: any user who writes an annotation or a name can send sequences.

Control characters are written as escapes of four digits, which JSON decodes to the original character.
"""

import re
from typing import Final

_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters C0 and C1 except tab and newline, and characters that some programs treat as line ends."""

_DIRECTION_MARKS: Final = re.compile(r"[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that change the direction of text, and so can make a text look like another one."""

_COLOUR_SEQUENCES: Final = re.compile(r"(\x1b\[(?:0|1|3[0-7]|9[0-7])m)")
"""Colour sequences that dra-reserve writes itself; text between two of them is escaped as usual."""


def escape_line(text: str) -> str:
    """Return a text as one line of a log, with all control characters escaped, newlines included."""
    return _DIRECTION_MARKS.sub(_escape, _CONTROL_CHARACTERS.sub(_escape, text).replace("\n", "\\n"))


def escape_terminal(text: str, *, on_a_terminal: bool) -> str:
    """Return a text fit for printing, with its lines, tabs and colours.

    Direction marks are escaped only on a terminal: data in a pipe keep all characters that data can contain.
    """
    parts = _COLOUR_SEQUENCES.split(text) if "\x1b" in text else [text]
    for place in range(0, len(parts), 2):
        parts[place] = _CONTROL_CHARACTERS.sub(_escape, parts[place])
        if on_a_terminal:
            parts[place] = _DIRECTION_MARKS.sub(_escape, parts[place])
    return "".join(parts)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
