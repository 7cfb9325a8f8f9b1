"""Shares of each class, from the strategy of the node."""

from collections.abc import Mapping
from typing import Any

from dra.engine.resctrl.decide import ClassShare
from dra.engine.resctrl.groups import ResctrlGroup


def class_shares(strategies: Any) -> Mapping[ResctrlGroup, ClassShare] | None:
    """Return the shares of the classes that the strategy enables; None if no strategy is known yet."""
    return strategies  # TODO
