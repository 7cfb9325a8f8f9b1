"""Projects whose operators scenarios play, with the CRDs of their kinds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.cluster import crds
from tests.scenarios.beside import cut_down, operators

if TYPE_CHECKING:
    from tests.scenarios.beside.operators import Operator


EXAMPLES: Final = Path(__file__).parents[3] / "examples"


@dataclass(frozen=True, kw_only=True)
class Project:
    """Operators of one project, and where the CRDs of their kinds come from."""

    operators: tuple[Operator, ...]
    release: crds.Release | None = None
    """None for cut-down CRDs."""
    example: Path | None = None
    """The example with a workload, and with a stand-in for the CRD."""

    def __str__(self) -> str:
        return self.release.name if self.release else "cut-down-crds"

    def definitions(self) -> dict[str, bytes]:
        """Return the CRDs by name, in YAML; raises `NotAvailableError`."""
        if self.release is None:
            return {each.group_resource: json.dumps(cut_down.definition(each)).encode() for each in self.operators}
        return {_name_of(path): path.read_bytes() for path in self.release.manifests()}


def _name_of(manifest: Path) -> str:
    """Return the name of the CRD in a file, whose name is made of the group and the resource: GROUP_RESOURCE.yaml."""
    group, _, resource = manifest.stem.partition("_")
    return f"{resource}.{group}"


CUT_DOWN: Final = Project(
    operators=(
        operators.RAY_JOBS,
        operators.RAY_CLUSTERS,
        operators.LEADER_WORKER_SETS,
        operators.VOLCANO_JOBS,
        operators.JAX_JOBS,
    )
)
"""The kinds of releases that CI cannot download."""

PROJECTS: Final = (
    Project(release=crds.JOBSET, operators=(operators.JOB_SETS,), example=EXAMPLES / "jobset"),
    Project(release=crds.TRAINER, operators=(operators.TRAIN_JOBS,)),
    Project(release=crds.TRAINING_OPERATOR, operators=operators.training_jobs(names_claims=False)),
    Project(release=crds.KUEUE, operators=(operators.WORKLOADS,)),
    Project(
        release=crds.KUBERAY,
        operators=(operators.RAY_JOBS, operators.RAY_CLUSTERS),
        example=EXAMPLES / "raycluster",
    ),
    Project(release=crds.LWS, operators=(operators.LEADER_WORKER_SETS,)),
    Project(release=crds.VOLCANO, operators=(operators.VOLCANO_JOBS,)),
    Project(
        release=crds.NEXT_TRAINING_OPERATOR, operators=(*operators.training_jobs(names_claims=True), operators.JAX_JOBS)
    ),
    CUT_DOWN,
)
