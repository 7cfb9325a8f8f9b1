"""Turns a solution of the allocator into the ``status.allocation`` of each claim."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from dra.engine.allocator.claims_to_allocate import ClaimToAllocate, RequestData
from dra.engine.allocator.consumable_capacity import consumed_capacity_quantities
from dra.engine.allocator.search import PickedDevice, Solution
from dra.model.claims import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from dra.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra.model.taints import DeviceToleration


def allocation_results(
    wanted: Iterable[ClaimToAllocate], solution: Solution, *, node: str, share_id: Callable[[], str]
) -> list[AllocationResult]:
    """Return the allocation of each claim, without its timestamp, which is set when the allocation is written.

    `share_id` generates the IDs that distinguish the shares of a device that allows multiple allocations.
    """
    return [_allocation_result(claim, picks, node, share_id) for claim, picks in zip(wanted, solution, strict=True)]


def _allocation_result(
    claim: ClaimToAllocate, picks: tuple[PickedDevice, ...], node: str, share_id: Callable[[], str]
) -> AllocationResult:
    results = [_device_result(picked, share_id) for picked in picks]
    return AllocationResult(
        devices=DeviceAllocationResult(results=results, config=_configuration(claim, picks) or None),
        node_selector=_node_selector(picks, node),
    )


def _device_result(picked: PickedDevice, share_id: Callable[[], str]) -> DeviceRequestAllocationResult:
    item, device = picked.candidate.item, picked.candidate.device
    shared = device.allow_multiple_allocations
    return DeviceRequestAllocationResult(
        request=picked.request.name,
        driver=item.driver,
        pool=item.pool,
        device=item.device,
        admin_access=True if picked.request.admin_access else None,
        share_id=share_id() if shared else None,
        consumed_capacity=consumed_capacity_quantities(
            device, picked.request.capacity_requests, driver=item.driver, release=picked.release
        )
        or None,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        tolerations=[_toleration(toleration) for toleration in picked.request.tolerations] or None,
    )


def _toleration(toleration: DeviceToleration) -> dict[str, Any]:
    """Return a toleration with the defaults that the API server sets."""
    written: dict[str, Any] = msgspec.to_builtins(toleration)
    return {"operator": toleration.operator} | written


def _configuration(claim: ClaimToAllocate, picks: tuple[PickedDevice, ...]) -> list[dict[str, Any]]:
    """Return the configuration for drivers: first of the classes, then of the claim, which may override the classes.

    Each configuration of a class comes once, with all requests that it applies to. If it applies to every request of
    the claim, the list stays empty, as in kube-scheduler's allocator since 1.37: an empty list means all requests.
    """
    requests = tuple(dict.fromkeys(picked.request for picked in picks))
    classes: dict[str, list[RequestData]] = {}
    for request in requests:
        classes.setdefault(request.device_class, []).append(request)
    configuration = [
        {"source": "FromClass", **_requests_field([request.name for request in those], requests), **config}
        for those in classes.values()
        for config in those[0].class_config
    ]
    for config in claim.config:
        names = config.requests or ()
        if not names or any(_is_named(request, names) for request in requests):
            opaque = {"opaque": config.opaque} if config.opaque is not None else {}
            configuration.append({"source": "FromClaim", **_requests_field(names, requests), **opaque})
    return configuration


def _requests_field(names: Sequence[str], requests: Sequence[RequestData]) -> dict[str, Any]:
    """Return the ``requests`` field of a configuration; empty if the configuration applies to all requests."""
    return {} if not names or all(_is_named(request, names) for request in requests) else {"requests": list(names)}


def _is_named(request: RequestData, names: Sequence[str]) -> bool:
    return request.name in names or request.parent_request in names


def _node_selector(picks: tuple[PickedDevice, ...], node: str) -> NodeSelector | None:
    """Return the node selector of an allocation: one node, all nodes that the slices' selectors match, or None for all.

    A device that belongs to one node, or that binds its claim to a node (``bindsToNode``), restricts the allocation to
    one node.

    Selectors of slices have one term each, so that their requirements can simply be joined.
    """
    expressions: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    for picked in picks:
        spec, device = picked.candidate.spec, picked.candidate.device
        place = device if spec.per_device_node_selection else spec
        if place.node_name or device.binds_to_node:
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
