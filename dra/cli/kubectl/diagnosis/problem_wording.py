"""The form of the texts for a kind of problem."""

from typing import NamedTuple

from dra.engine.messages.remedies import Remedy


class ProblemText(NamedTuple):
    """The texts for a kind of problem, as templates that are filled with the facts of the problem."""

    text: str
    remedy: Remedy | None = None
    needs: tuple[str, ...] = ()
    """Facts that must be present, neither empty nor 0, for `remedy` to apply."""

    otherwise: Remedy | None = None
    """Remedy that applies where one of these facts is missing."""
