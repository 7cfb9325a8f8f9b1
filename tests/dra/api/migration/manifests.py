"""PodMigrationJobs as people write them."""

from copy import deepcopy


def manifest(name="demo", **spec):
    """Return a good one; what is given takes the place of a field, None takes it away."""
    whole = {
        "paused": False,
        "ttl": "5m",
        "mode": "ReservationFirst",
        "podRef": {"namespace": "default", "name": "pod-demo-0"},
    }
    fields = {key: value for key, value in {**whole, **spec}.items() if value is not None}
    return deepcopy(
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "PodMigrationJob",
            "metadata": {"name": name},
            "spec": fields,
        }
    )


def with_template(**spec):
    """Return a job with a template of its Reservation."""
    return {"reservationOptions": {"template": {"spec": spec}}}
