"""The namespaces whose pods may request CPUs and GPUs in Koordinator's form."""

from collections.abc import Callable

from controller.informers import ControllerInformers
from dra.kube.event_handlers import ignore
from dra.model.meta import PartialObjectMetadata


class EnabledNamespaces:
    """The namespaces with the label ``reserve.dra/koordinator: enabled``."""

    def __init__(self, informers: ControllerInformers) -> None:
        self._names: set[str] = set()
        self._listeners: list[Callable[[str], None]] = []
        self.wait_for_sync = informers.enabled_namespaces.wait_for_sync
        informers.enabled_namespaces.subscribe(self._enabled, self._disabled, restored=ignore)

    def __contains__(self, namespace: str) -> bool:
        return namespace in self._names

    def on_enable(self, listener: Callable[[str], None]) -> None:
        """Call a listener with each namespace that becomes enabled."""
        self._listeners.append(listener)

    def _enabled(self, namespace: PartialObjectMetadata) -> None:
        name = namespace.metadata.name
        if name not in self._names:
            self._names.add(name)
            for listener in self._listeners:
                listener(name)

    def _disabled(self, namespace: PartialObjectMetadata) -> None:
        self._names.discard(namespace.metadata.name)
