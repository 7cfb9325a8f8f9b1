"""The informer of namespaces whose pods may request CPUs and GPUs in Koordinator's form."""

from collections.abc import Callable

from controller.optional_part import InformerPart
from dra.api.koordinator.well_known import ENABLED, LABEL_ENABLED
from dra.kube.client import Client, Selection
from dra.kube.clock import Clock
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.reflector import Reflector
from dra.kube.resources import NAMESPACES
from dra.model.meta import PartialObjectMetadata


class EnabledNamespaces(InformerPart):
    """The reflector of namespaces with the label ``reserve.dra/koordinator: enabled``."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._names: set[str] = set()
        self._listeners: list[Callable[[str], None]] = []
        super().__init__(
            Reflector(
                client,
                NAMESPACES,
                PartialObjectMetadata,
                handler=EventHandlerFuncs(
                    on_upsert=self._enabled,
                    on_delete=lambda namespace: self._names.discard(namespace.metadata.name),
                    on_restore=ignore,
                ),
                selection=Selection(labels=f"{LABEL_ENABLED}={ENABLED}"),
                clock=clock,
            )
        )

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
