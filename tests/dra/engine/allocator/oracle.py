"""Tries everything: slow, and written from the rules alone."""

from itertools import combinations, product

from dra.model.device_requests import DeviceClaim


def solvable(claims, slices, held):
    """Whether there is an allocation of all claims; `held` are (pool, device) of others."""
    devices, broken = _devices(slices)
    steps = [
        (number, request, choice)
        for number, claim in enumerate(claims)
        for request in [DeviceClaim.of(claim.spec.devices).requests]
        for choice in request
    ]
    alternatives = [_alternatives(request) for _, _, request in steps]
    for chosen in product(*alternatives):
        options = []
        for _, ask in chosen:
            meant = [d for d in devices if _means(ask, d)]
            if ask.allocation_mode == "All":
                meant = [d for d in meant if ask.capacity is None or d[1].capacity]
                options.append([] if broken or not meant else [tuple(meant)])
            else:
                options.append(list(combinations(meant, ask.count)))
        for picked in product(*options):
            solution = [
                (number, name, ask, device)
                for (number, _, _), (name, ask), group in zip(steps, chosen, picked, strict=True)
                for device in group
            ]
            if violation(solution, claims, slices, held) is None:
                return True
    return False


def violation(solution, claims, slices, held):
    """Return what is wrong with an allocation, None if nothing: (claim number, request, ask, (pool, device))."""
    return (
        _taken_twice(solution, held)
        or _tainted(solution)
        or _overdrawn(solution, slices, held)
        or _too_small(solution)
        or _inconsistent(solution, claims)
    )


def _taken_twice(solution, held):
    taken = {}
    for number, _, ask, device in solution:
        claims = taken.setdefault(_id(device), set())
        if number in claims if _admin(ask) else claims or _id(device) in held:
            return "a device has two owners"
        if not device[1].allow_multiple_allocations:
            claims.add(number)
    return None


def _tainted(solution):
    for _, _, ask, (_, device) in solution:
        if device.taints and not ask.tolerations:
            return f"{device.name} is tainted"
    return None


def _overdrawn(solution, slices, held):
    for each in slices:
        pool = each.spec.pool.name
        for counters in each.spec.shared_counters or ():
            limit = int(counters["counters"]["memory"]["value"])
            picked = [d for _, _, _, (p, d) in solution if p == pool and d.consumes_counters]
            drawn = [d for d in picked if not d.allow_multiple_allocations]
            drawn += {d.name: d for d in picked if d.allow_multiple_allocations}.values()
            drawn += [d for d in each.spec.devices if (pool, d.name) in held]
            if picked and sum(map(_draws, drawn)) > limit:
                return f"counters of {pool} are overdrawn"
    return None


def _too_small(solution):
    for each in {_id(device) for _, _, _, device in solution}:
        takers = [(ask, device[1]) for _, _, ask, device in solution if _id(device) == each]
        parts = [int(ask.capacity.requests["memory"]) if ask.capacity else None for ask, _ in takers]
        for (_, device), part in zip(takers, parts, strict=True):
            if part is not None and not device.capacity:
                return f"{device.name} has no such capacity"
        if takers and takers[0][1].allow_multiple_allocations and sum(3 if p is None else p for p in parts) > 3:
            return "more of a shared device than there is"
    return None


def _inconsistent(solution, claims):
    for number, claim in enumerate(claims):
        for constraint in DeviceClaim.of(claim.spec.devices).constraints:
            attribute = (constraint.match_attribute or constraint.distinct_attribute).split("/")[1]
            values = [
                (device.attributes or {}).get(attribute)
                for n, name, _, (_, device) in solution
                if n == number and (not constraint.requests or name.split("/")[0] in constraint.requests)
            ]
            if None in values:
                return f"a device has no {attribute}"
            kinds = {str(v) for v in values}
            if len(kinds) > 1 and constraint.match_attribute:
                return f"different {attribute}"
            if len(kinds) < len(values) and constraint.distinct_attribute:
                return f"the same {attribute}"
    return None


def _devices(slices):
    whole = [s for s in slices if s.spec.pool.resource_slice_count == 1]
    return [(s.spec.pool.name, d) for s in whole for d in s.spec.devices], len(whole) < len(slices)


def _alternatives(request):
    if request.exactly is not None:
        return [(request.name, request.exactly)]
    return [(f"{request.name}/{sub.name}", sub) for sub in request.first_available]


def _means(ask, device):
    return ask.device_class_name == "any" or (device[1].attributes or {}).get("color") == {"string": "red"}


def _admin(ask):
    return bool(getattr(ask, "admin_access", None))


def _draws(device):
    return sum(int(c["counters"]["memory"]["value"]) for c in device.consumes_counters or ())


def _id(device):
    return device[0], device[1].name
