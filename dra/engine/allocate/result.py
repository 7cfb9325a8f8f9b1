"""Writes a solution down as the ``status.allocation`` of its claims."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dra.engine.allocate.search import Pick, Solution
from dra.engine.allocate.shares import written
from dra.engine.allocate.wanted import Wanted
from dra.model.claims import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from dra.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra.model.requests import DeviceClaimConfiguration
from dra.model.taints import DeviceToleration


def allocations(
    wanted: Iterable[Wanted], solution: Solution, *, node: str, share_id: Callable[[], str]
) -> list[AllocationResult]:
    """Return the allocation of each claim, without its timestamp: that is set when it is written.

    `share_id` makes the ids by which parts of shared devices are told apart.
    """
    return [_allocation(claim, picks, node, share_id) for claim, picks in zip(wanted, solution, strict=True)]


def _allocation(claim: Wanted, picks: tuple[Pick, ...], node: str, share_id: Callable[[], str]) -> AllocationResult:
    results = [_result(pick, share_id) for pick in picks]
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=_config(claim, picks) or None),
        node_selector=_node_selector(picks, node),
    )


def _result(pick: Pick, share_id: Callable[[], str]) -> DeviceRequestAllocationResult:
    item = pick.candidate.item
    shared = pick.candidate.device.allow_multiple_allocations and not pick.ask.admin
    return DeviceRequestAllocationResult(
        request=pick.ask.name,
        driver=item.driver,
        pool=item.pool,
        device=item.device,
        admin_access=True if pick.ask.admin else None,
        share_id=share_id() if shared else None,
        consumed_capacity={name: written(amount) for name, amount in pick.part.items()} if shared else None,
        tolerations=[_toleration(each) for each in pick.ask.tolerations] or None,
    )


def _toleration(toleration: DeviceToleration) -> dict[str, Any]:
    """Return a toleration as the API server would have completed it."""
    written: dict[str, Any] = msgspec.to_builtins(toleration)
    return {"operator": toleration.operator} | written


def _config(claim: Wanted, picks: tuple[Pick, ...]) -> list[dict[str, Any]]:
    """Return what drivers are told: first of the classes, then of the claim, which may override it."""
    asks = list(dict.fromkeys(pick.ask for pick in picks))
    of_classes = [
        {"source": "FromClass", "requests": [ask.name], **config} for ask in asks for config in ask.class_config
    ]
    of_claim = [
        {"source": "FromClaim", **msgspec.to_builtins(config)}
        for config in claim.config
        if not config.requests or any(_about(config, pick) for pick in picks)
    ]
    return of_classes + of_claim


def _about(config: DeviceClaimConfiguration, pick: Pick) -> bool:
    names = config.requests or ()
    return pick.ask.name in names or pick.ask.parent in names


def _node_selector(picks: tuple[Pick, ...], node: str) -> NodeSelector | None:
    """Return where the devices can be used: one node, the nodes that all their selectors match, or everywhere (None).

    Selectors of slices have one term each, so that their requirements can simply be joined.
    """
    expressions: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    for pick in picks:
        spec, device = pick.candidate.spec, pick.candidate.device
        place = device if spec.per_device_node_selection else spec
        if place.node_name:
            only = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
            return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[only])])
        for term in place.node_selector.node_selector_terms if place.node_selector is not None else ():
            expressions += [e for e in term.match_expressions or () if e not in expressions]
            fields += [f for f in term.match_fields or () if f not in fields]
    if not expressions and not fields:
        return None
    return NodeSelector(
        node_selector_terms=[NodeSelectorTerm(match_expressions=expressions or None, match_fields=fields or None)]
    )
