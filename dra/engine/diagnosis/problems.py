"""One problem of one object, as ``kubectl dra explain`` and ``audit`` report it."""

from dra.engine.claims.reasons import Subject
from dra.engine.diagnosis.problem_codes import ProblemCode, ProblemSeverity
from dra.model.meta import Key, Struct, Uid
from dra.model.workload_reservations import NO_UID


class Problem(Struct, frozen=True):
    """One problem of one object, with its numbers and names."""

    code: ProblemCode
    subject: Subject
    facts: tuple[tuple[str, str | int], ...] = ()

    @property
    def severity(self) -> ProblemSeverity:
        """The severity that the problem's code has."""
        return self.code.severity

    @property
    def facts_by_name(self) -> dict[str, str | int]:
        """The facts of the problem by name."""
        return dict(self.facts)


def claim_problem(code: ProblemCode, *, key: Key, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a claim."""
    return _problem(code, "ResourceClaim", key, uid, facts)


def pod_problem(code: ProblemCode, *, key: Key, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a pod."""
    return _problem(code, "Pod", key, uid, facts)


def template_problem(code: ProblemCode, *, key: Key, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a ResourceClaimTemplate."""
    return _problem(code, "ResourceClaimTemplate", key, uid, facts)


def node_problem(code: ProblemCode, *, name: str, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a Node, which has no namespace."""
    return _problem(code, "Node", ("", name), uid, facts)


def reservation_problem(code: ProblemCode, *, name: str, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a Reservation, which has no namespace."""
    return _problem(code, "Reservation", ("", name), uid, facts)


def migration_problem(code: ProblemCode, *, name: str, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a PodMigrationJob, which has no namespace."""
    return _problem(code, "PodMigrationJob", ("", name), uid, facts)


def config_map_problem(code: ProblemCode, *, key: Key, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a ConfigMap."""
    return _problem(code, "ConfigMap", key, uid, facts)


def pool_problem(code: ProblemCode, *, driver: str, pool: str, **facts: str | int) -> Problem:
    """Return a problem of a driver's pool of devices, which is no object of its own."""
    return _problem(code, "Pool", ("", f"{driver}/{pool}"), NO_UID, {"driver": driver, **facts})


def upgrade_problem(subject: Subject, *, cause: str) -> Problem:
    """Return a problem of an object, or of a driver, that a newer version of Kubernetes takes otherwise."""
    return _problem(ProblemCode.UPGRADE_OBSTACLE, subject.kind, subject.key, subject.uid, {"cause": cause})


def controller_problem(code: ProblemCode, *, lease: str, **facts: str | int) -> Problem:
    """Return a problem of the whole cluster; `lease` is NAMESPACE/NAME of the Lease of dra-reserve's controller."""
    namespace, _, name = lease.partition("/")
    return _problem(code, "Lease", (namespace, name), NO_UID, facts)


def deployment_problem(code: ProblemCode, *, key: Key, **facts: str | int) -> Problem:
    """Return a problem of a Deployment of dra-reserve, which concerns the whole cluster."""
    return _problem(code, "Deployment", key, NO_UID, facts)


def _problem(code: ProblemCode, kind: str, key: Key, uid: Uid, facts: dict[str, str | int]) -> Problem:
    named = {"namespace": key[0], "name": key[1], "uid": uid} | facts
    return Problem(code=code, subject=Subject(kind=kind, key=key, uid=uid), facts=tuple(named.items()))
