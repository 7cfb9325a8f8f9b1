"""Breaks that were decided, as regular expressions of the lines of `compatibility.breaks`, each with its reason.

An entry lets a removal pass for every older commit. It needs a line in the CHANGELOG, so that users hear of it.
"""

from typing import Final

INTENDED: Final = {
    r"^crds: .*: max(Length|Items|Properties) is (1024|\d{4,}), and was not limited$": (
        "large objects: one tenant's object must not fill the memory of a controller that serves all (CHANGELOG, "
        "limits); no client writes such values"
    ),
    r"^crds: podmigrationjobs[.].*[.]template[.]spec[.]template: rules is .*!has\(self[.]spec[.]containers\)": (
        "the rule admits more: a template without containers adds to the pod's own spec (CHANGELOG, Descheduler); an "
        "older descheduler that meets such a job fails it, and the pod stays"
    ),
}

EXIT_CODES: Final[dict[str, str]] = {}
"""Command line → why its exit code is another one than that of the older build."""
