"""nodeFit for the pods of jobs: only nodes that nodeSelector selects count."""

import pytest

from dra.api.descheduler.migration_controller_args import MigrationControllerArgs
from dra.engine.descheduling.job_fit import unfit_pods
from tests.dra.engine.descheduling.rounds import SlotSnapshot, pod
from tests.dra.engine.migration.examples import job


def unfit(fields, *, slots):
    snapshot = SlotSnapshot([pod("a"), pod("b")], slots=slots, jobs=(job("a"),))
    return dict(unfit_pods(snapshot, args=MigrationControllerArgs.model_validate(fields)))


@pytest.mark.parametrize(
    ("fields", "slots", "texts"),
    [
        pytest.param({}, {"n2": 0}, [], id="not-asked-for"),
        pytest.param({"nodeFit": True, "skipEvictionGates": ["NodeFit"]}, {"n2": 0}, [], id="gate"),
        pytest.param({"nodeFit": True}, {"n2": 1}, [], id="room-elsewhere"),
        pytest.param({"nodeFit": True}, {"n2": 0}, ["pod ns/a: fits on no other node (nodeFit)"], id="no-room"),
        pytest.param(
            {"nodeFit": True, "nodeSelector": "pool=a"},
            {"n2": 1},
            ["pod ns/a: fits on no other node that nodeSelector selects (nodeFit)"],
            id="room-on-other-nodes-only",
        ),
    ],
)
def test_pods_of_jobs_that_fit_on_no_other_node(fields, slots, texts):
    assert list(unfit(fields, slots=slots).values()) == texts
