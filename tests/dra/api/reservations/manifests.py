"""Reservations as people write them."""

from copy import deepcopy


def manifest(name="demo", **spec):
    """Return a good one; what is given takes the place of a field, None takes it away."""
    whole = {
        "template": {
            "namespace": "default",
            "spec": {
                "schedulerName": "koord-scheduler",
                "containers": [
                    {
                        "name": "stress",
                        "image": "polinux/stress",
                        "args": ["-c", "1"],
                        "resources": {"requests": {"cpu": "500m", "memory": "800Mi"}},
                    }
                ],
            },
        },
        "owners": [{"object": {"namespace": "default", "name": "pod-demo-0"}}],
        "ttl": "1h",
    }
    fields = {key: value for key, value in {**whole, **spec}.items() if value is not None}
    return deepcopy(
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name},
            "spec": fields,
        }
    )
