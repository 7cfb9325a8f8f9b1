"""Shares of the classes that a strategy enables."""

from collections.abc import Mapping

from dra.api.colocation.strategies import QosStrategy
from dra.engine.resctrl.decide import ClassShare
from dra.engine.resctrl.groups import ResctrlGroup


def class_shares(strategy: QosStrategy) -> Mapping[ResctrlGroup, ClassShare]:
    """Return the share of each class that is enabled; none: nothing is divided."""
    return {
        ResctrlGroup(name): ClassShare(
            cache_start=part.cat_range_start_percent, cache_end=part.cat_range_end_percent, bandwidth=part.mba_percent
        )
        for name, part in strategy.by_class.items()
        if part.enable
    }
