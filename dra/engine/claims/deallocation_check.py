"""The check of live reads before a claim is deallocated whose release others triggered.

A pod may be bound unknown to the cache.
"""

from collections.abc import Iterable, Iterator

from dra.engine.claims.actions import Deallocate
from dra.model.nodes import Node
from dra.model.pods import Pod, claim_names


class BoundMeanwhileError(Exception):
    """A live read showed a pod that is bound, or about to be: the claim is not deallocated."""


class DeallocationCheck:
    """The check of one deallocation: all pods of the claim's namespace, then nodes if `needs_nodes`."""

    def __init__(self, write: Deallocate) -> None:
        self._write = write
        self._silent: set[str] = set()
        """Nodes of the pods that were given up."""

    @property
    def needs_nodes(self) -> bool:
        """Return whether pods were given up, which do not count unless the kubelet of their node reports in."""
        return bool(self._silent)

    def users(self, pods: Iterable[Pod]) -> Iterator[Pod]:
        """Yield the pods that use the claim."""
        return (pod for pod in pods if self._write.claim[1] in claim_names(pod))

    def check_pod(self, pod: Pod) -> None:
        """Raise BoundMeanwhileError if a pod is bound, or nominated by a binding cycle.

        Nominations that are older than any binding cycle do not count.
        """
        uid, node, nominated = pod.metadata.uid, pod.spec.node_name, pod.status.nominated_node_name
        if uid in self._write.given_up:
            self._silent.add(node)
        elif pod.bound_or_nominated and (node or (uid, nominated) not in self._write.nominated):
            raise self.objection(f"pod {pod.metadata.name} is being bound")

    def nodes_to_check(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """Yield the nodes of the pods that were given up."""
        return (node for node in nodes if node.metadata.name in self._silent)

    def check_node(self, node: Node) -> None:
        """Raise BoundMeanwhileError if the kubelet of a node reports in."""
        if node.ready:
            raise self.objection(f"node {node.metadata.name} reports in")

    def objection(self, text: str) -> BoundMeanwhileError:
        """Return the error that says why the claim is not deallocated."""
        return BoundMeanwhileError(f"claim {'/'.join(self._write.claim)}: {text}")
