"""A controller of a kind of its own: crews use a claim, and when one is done, it releases it.

kopf run --standalone --namespace=NAMESPACE examples/foreign-controller/operator.py     (pip install kopf kubernetes)

It needs nothing of dra-reserve but the name of an annotation, and does no harm where dra-reserve is off.
"""

import kopf
from kubernetes import client, config

STRATEGIC = "application/strategic-merge-patch+json"
FINISHED = ("Succeeded", "Failed")


@kopf.on.startup()
def connect(settings, **_):
    """Find the API server as kubectl does, or as pods do."""
    settings.scanning.disabled = True  # else kopf wants to watch namespaces and CRDs
    try:
        config.load_incluster_config()
    except config.ConfigException:
        config.load_kube_config()


@kopf.on.resume("example.com", "v1", "crews")
@kopf.on.create("example.com", "v1", "crews")
@kopf.on.update("example.com", "v1", "crews", field="spec")
def release_when_done(spec, name, namespace, uid, logger, **_):
    """Release the claims of a crew that will make no more pods."""
    if not spec.get("done"):
        return
    pods = client.CoreV1Api().list_namespaced_pod(namespace, label_selector=f"crew={name}").items
    if any(pod.status.phase not in FINISHED for pod in pods):
        raise kopf.TemporaryError(f"pods of crew {name} still run", delay=1)  # the claim would wait for them, too
    for claim in client.ResourceV1Api().list_namespaced_resource_claim(namespace).items:
        notes = claim.metadata.annotations or {}
        if notes.get("reserve.dra/reserved-for") == f"crews.example.com/{name}":
            release(namespace, claim.metadata.name, uid)
            logger.info("claim %s is released", claim.metadata.name)


def release(namespace, claim, uid):
    """Take the entry of the object with that uid out of the claim's list; fine if it is not there."""
    patch = {"status": {"reservedFor": [{"$patch": "delete", "uid": uid}]}}
    try:
        client.ResourceV1Api().patch_namespaced_resource_claim_status(claim, namespace, patch, _content_type=STRATEGIC)
    except client.ApiException as error:
        if error.status != 404:
            raise
