"""Breaks that were decided, as regular expressions of the lines of `compatibility.breaks`, each with its reason.

An entry lets a removal pass for every older commit. It needs a line in the CHANGELOG, so that users hear of it.
"""

from typing import Final

INTENDED: Final = {
    r"^crds: .*: max(Length|Items|Properties) is (1024|\d{4,}), and was not limited$": (
        "large objects: one tenant's object must not fill the memory of a controller that serves all (CHANGELOG, "
        "limits); no client writes such values"
    ),
}

EXIT_CODES: Final[dict[str, str]] = {}
"""Command line → why its exit code is another one than that of the older build."""
