"""A live cluster answers as a snapshot of the same moment does."""

from dra.engine.diagnosis.live_cluster import LiveCluster
from tests.dra.engine.diagnosis.cluster_states import claim, snapshot


def test_a_similar_claim_is_suggested_while_it_exists():
    cluster, [train] = LiveCluster(), snapshot(claim("train")).claims
    found = []
    for change in (lambda _: None, cluster.observe_claim, cluster.forget_claim):
        change(train)
        cluster.refresh()
        found.append(cluster.similar_claim(("ml", "trainn")))
    assert found == ["", "ml/train", ""]
