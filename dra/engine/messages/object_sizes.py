"""Events about objects that are too large to be kept in memory, of any kind."""

from dra.engine.messages.texts import ExplainedReason, explain


class ObjectSizeReason(ExplainedReason):
    """The reason of an Event on an object because of its size."""

    OBJECT_TOO_LARGE = explain(
        "ObjectTooLarge",
        "Controllers do not read the object: what they last knew of it stays in effect, a claim keeps its devices, a "
        "pod counts on its node, and a Reservation holds what its status says. Other objects are not affected.",
        "The object takes more than 512 KiB of memory, or the large objects of its namespace take more than 8 MiB "
        "together: many labels, finalizers, owner references, containers or claims of a pod, or a large template of a "
        "Reservation.",
        "Make the object smaller, or delete it: `kubectl get … -o json | wc -c` shows its size.",
    )
