"""Events on the plugin's Node; ``kubectl describe node`` shows them."""

from enum import StrEnum
from typing import Final, NoReturn

from dra.kube.client import Client
from dra.kube.clock import SYSTEM, Clock
from dra.kube.event_correlator import EventRecord, Regarding
from dra.kube.events import EventRecorder
from dra.kube.resources import NODES
from dra.model.event_type import EventType
from dra.model.meta import Uid

CONTROLLER: Final = "reserve.dra/kubelet-plugin"


class NodeAction(StrEnum):
    """The ``action`` of an Event: what the plugin does for its Node."""

    SERVE = "Serve"
    RESERVE = "Reserve"
    DIVIDE = "Divide"
    LIMIT = "Limit"


class NodeEventRecorder:
    """Posts Events about one Node; `run` posts until cancelled."""

    def __init__(self, client: Client, *, node: str, clock: Clock = SYSTEM) -> None:
        self._recorder = EventRecorder(client, instance=node, controller=CONTROLLER, clock=clock)
        # The name in place of the uid, as in the kubelet's own Events; kubectl describe finds both.
        self._regarding = Regarding(
            api_version=NODES.api_version, kind=NODES.kind, namespace="", name=node, uid=Uid(node)
        )

    def record_warning(self, reason: str, text: str, *, action: NodeAction = NodeAction.SERVE) -> None:
        """Record a Warning about the Node; best effort, never waits."""
        fact = EventRecord(
            regarding=self._regarding,
            severity=EventType.WARNING,
            reason=reason,
            action=action.value,
            note=f"node {self._regarding.name}: {text}",
        )
        self._recorder.record(fact)

    async def run(self) -> NoReturn:
        """Post the recorded Events until cancelled."""
        await self._recorder.run()
