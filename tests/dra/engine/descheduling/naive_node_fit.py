"""The filters of kube-scheduler over one node, as its documentation states them: slow, and without any index."""

from dra.model.nodes import matches_node_selector
from dra.model.quantities import from_validated_list

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - of a host port


def unfit_reason(cluster, pod, name, *, own, attracts=True):
    """Return why a pod that runs on node `own` could not be moved to a node; `cluster` has nodes, pods, namespaces."""
    others = [p for p in cluster.pods if p.metadata.uid != pod.metadata.uid]
    pasts = [others] if name == own else [cluster.pods, others]
    found = (text for pods in pasts for text in reasons(cluster, pods, pod, name))
    return next((text for text in found if attracts or text != "affinity"), "")


def reasons(cluster, pods, pod, name):
    """Yield why a pod does not fit on a node on which, and on the others, these pods run."""
    nodes = {n.metadata.name: n for n in cluster.nodes}
    node = nodes[name]
    here = [p for p in pods if p.spec.node_name == name and not p.terminal]
    running = [p for p in pods if p.spec.node_name in nodes and not p.terminal]
    if not node.ready:
        yield "node(s) were not ready"
    if not tolerates(pod, node):
        yield "taint"
    if not selects(pod, node):
        yield "selector"
    if any(clash(one, other) for one in ports(pod) for p in here for other in ports(p)):
        yield "ports"
    yield from short_of(node, here, pod)
    yield from spread(nodes, running, pod, node)
    yield from affinity(cluster, nodes, running, pod, node)


def tolerates(pod, node):
    effects = ("NoSchedule", "NoExecute")
    taints = [t for t in node.spec.taints or () if t.effect in effects]
    return all(any(by.tolerates(t) for by in pod.spec.tolerations or ()) for t in taints)


def selects(pod, node):
    labels = node.metadata.labels or {}
    wanted = pod.spec.node_selector or {}
    terms = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = terms.required_during_scheduling_ignored_during_execution if terms else None
    return wanted.items() <= labels.items() and matches_node_selector(required, name=node.metadata.name, labels=labels)


def ports(pod):
    return [p for c in pod.spec.containers or () for p in c.ports or () if p.host_port]


def clash(one, other):
    same = (one.host_port, one.protocol or "TCP") == (other.host_port, other.protocol or "TCP")
    addresses = {one.host_ip or ANY_ADDRESS, other.host_ip or ANY_ADDRESS}
    return same and (len(addresses) == 1 or ANY_ADDRESS in addresses)


def amounts(pod):
    total = {"pods": 10**9}
    for container in pod.spec.containers or ():
        for resource, amount in from_validated_list(container.resources.requests).items():
            total[resource] = total.get(resource, 0) + amount
    return total


def short_of(node, here, pod):
    has = from_validated_list(node.status.allocatable)
    for resource, amount in amounts(pod).items():
        if amount and amount > has.get(resource, 0) - sum(amounts(p).get(resource, 0) for p in here):
            yield f"Insufficient {resource}"


def selected(selector, labels):
    return selector is not None and selector.selects(labels or {})


def spread(nodes, running, pod, node):
    hard = [c for c in pod.spec.topology_spread_constraints or () if c.when_unsatisfiable == "DoNotSchedule"]
    keys = [c.topology_key for c in hard]
    if any(key not in node.metadata.labels for key in keys):
        yield "missing label"
        return
    for c in hard:
        counts = {}
        for n in nodes.values():
            excluded = (c.node_affinity_policy == "Honor" and not selects(pod, n)) or (
                c.node_taints_policy == "Honor" and not tolerates(pod, n)
            )
            if excluded or any(key not in n.metadata.labels for key in keys):
                continue
            own = pod.metadata.labels
            keys_of_pod = [key for key in c.match_label_keys or () if key in own]
            counts_nobody = c.label_selector is not None and c.label_selector.is_empty and not keys_of_pod
            matching = [
                p
                for p in running
                if p.spec.node_name == n.metadata.name
                and p.metadata.namespace == pod.metadata.namespace
                and not p.metadata.deleting
                and selected(c.label_selector, p.metadata.labels)
                and not counts_nobody
                and all(p.metadata.labels.get(key) == own[key] for key in keys_of_pod)
            ]
            domain = n.metadata.labels[c.topology_key]
            counts[domain] = counts.get(domain, 0) + len(matching)
        fewest = min(counts.values(), default=0) if len(counts) >= (c.min_domains or 1) else 0
        itself = 1 if selected(c.label_selector, pod.metadata.labels) else 0
        if counts.get(node.metadata.labels[c.topology_key], 0) + itself - fewest > c.max_skew:
            yield "skew"


def matches(cluster, term, carrier, pod):
    namespace = pod.metadata.namespace
    if term.namespaces or term.namespace_selector is not None:
        inside = namespace in (term.namespaces or ()) or selected(
            term.namespace_selector, cluster.namespaces.get(namespace)
        )
    else:
        inside = namespace == carrier.metadata.namespace
    own, labels = carrier.metadata.labels, pod.metadata.labels
    same = all(labels.get(key) == own[key] for key in term.match_label_keys or () if key in own)
    differs = all(labels.get(key) != own[key] for key in term.mismatch_label_keys or () if key in own)
    return inside and same and differs and selected(term.label_selector, labels)


def terms(pod, kind):
    affinity = getattr(pod.spec.affinity, kind, None)
    return (affinity.required_during_scheduling_ignored_during_execution or []) if affinity is not None else []


def affinity(cluster, nodes, running, pod, node):
    def domain(host, key):
        return nodes[host].metadata.labels.get(key)

    def share(host, key):
        return domain(host, key) is not None and domain(host, key) == node.metadata.labels.get(key)

    wanted = terms(pod, "pod_affinity")
    attracting = [p for p in running if all(matches(cluster, t, pod, p) for t in wanted)]
    in_domains = any(domain(p.spec.node_name, t.topology_key) is not None for p in attracting for t in wanted)
    is_first = not in_domains and all(matches(cluster, t, pod, pod) for t in wanted)
    for t in wanted:
        if t.topology_key not in node.metadata.labels or (
            not is_first and not any(share(p.spec.node_name, t.topology_key) for p in attracting)
        ):
            yield "affinity"
    for t in terms(pod, "pod_anti_affinity"):
        if any(matches(cluster, t, pod, p) and share(p.spec.node_name, t.topology_key) for p in running):
            yield "anti-affinity"
    for p in running:
        for t in terms(p, "pod_anti_affinity"):
            if matches(cluster, t, p, pod) and share(p.spec.node_name, t.topology_key):
                yield "existing anti-affinity"
