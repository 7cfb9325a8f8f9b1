"""Where each block of commands of each page is run: here, by another test, or by nobody but the reader, and then why.

A block is named by its page, or by its page and the section that it stands in (``README.md#Use``); the second wins.
"""

import re
from dataclasses import dataclass, field

from tests.pages.reading import Block, blocks


@dataclass(frozen=True)
class Page:
    """One that is followed here, on the plane of the tests, together with others."""

    path: str
    replacing: tuple[tuple[str, str], ...] = ()
    """What stands for something else there, as regular expressions."""
    before: str = field(default="", kw_only=True)
    """What must have been typed before."""
    alone: bool = field(default=False, kw_only=True)
    """The page cordons nodes, offers devices or the like, so that no other page could be followed meanwhile."""
    long: bool = field(default=False, kw_only=True)
    """Also what takes a minute or more, since a rule does, is waited for; `make test` leaves that out, and says so."""

    def blocks(self) -> list[Block]:
        """Return what is followed here."""
        found = [block.patient() if self.long else block for block in blocks(self.path)]
        return [block for block in found if place(self.path, block) == self.path]


IDLE = ((r"\bNAME\b", "idle"), (r"\bNAMESPACE\b", "ml"))
KNOWN = ((r"\bpod NAME\b", "pod next"), (r"\bNAME\b", "train"), (r"\bNAMESPACE\b", "ml"))
"""prepared.yaml has the claims and the pod that the reader stands before."""

INSTALLED = (
    (r"^make venv$", ""),
    (r'^export PATH="\$PWD/\.venv/bin:\$PATH"$', ""),
    (r"\.venv/bin/(?=dra-reserve )", ""),
)
"""Our programs, as they are in this tree, are on PATH."""

ALONE = "kubectl delete deployment --all -n dra-reserve"
"""The plane has a controller of its own, without a lease; no other must be installed beside it, or use CPUs."""

NO_GPU_POD = "kubectl delete --ignore-not-found -f examples/gpus/pod.yaml"
"""The pod of docs/how-to/kubelet-plugin.md waits for a GPU, and would take one of those that the page offers."""

NO_TRAINING = "kubectl delete job/train pod/next -n ml"
"""Its pods name a claim that other nodes cannot use, so no node with one of them can be emptied."""

NO_RESERVATIONS = "kubectl delete reservations --all"
"""Reservations of other pages may be on the node, with another policy than that of the page."""

ON_THE_PLANE = ((r"^dra-reserve local up --detach$", ""), (r'^eval "\$\(dra-reserve local env\)"$', ""))
ROUNDS = ((r"deschedule --dry-run$", "deschedule --dry-run -f examples/descheduling/configuration.yaml"),)
"""The descheduler of the plane has no profiles."""

COLOCATED = ((r"\b(node|nodemetric) NAME\b", r"\1 node-1"), (r"\bNAME -n NAMESPACE", "next -n ml"))
CONFIGURED = "kubectl apply -f examples/colocation/slo-controller-config.yaml"
"""The ConfigMap that the page is about."""

FOLLOWED = (
    Page("docs/tutorial/first-claim.md", INSTALLED),
    Page("examples/training-job/README.md"),
    Page("examples/gpus/README.md"),
    Page("docs/how-to/kubectl-dra.md", KNOWN),
    Page("docs/how-to/idle-devices.md"),
    Page("examples/shared-gpu/README.md"),
    Page("docs/how-to/a-claim-is-not-freed.md", IDLE),
    Page("examples/raycluster/README.md"),
    Page("examples/jobset/README.md"),
    Page("docs/how-to/pending-pod.md", KNOWN),
    Page("docs/runbooks/DraReserveApiErrors.md"),
    Page("docs/runbooks/DraReserveClaimsIdle.md"),
    Page("docs/runbooks/DraReserveClaimsRefused.md", KNOWN),
    Page("docs/runbooks/DraReserveDecisionsFail.md"),
    Page("docs/runbooks/DraReserveDoubleUse.md"),
    Page("docs/runbooks/DraReserveCertificateExpires.md"),
    Page("docs/runbooks/DraReserveExtenderCertificateEnds.md"),
    Page("docs/runbooks/DraReserveExtenderInDoubt.md"),
    Page("docs/runbooks/DraReserveExtenderNobodyBinds.md"),
    Page("docs/runbooks/DraReserveLeak.md"),
    Page("docs/runbooks/DraReserveMigrationsFail.md"),
    Page("docs/runbooks/DraReserveMigrationsWait.md"),
    Page("docs/runbooks/DraReserveRoundsFail.md", ROUNDS),
    Page("docs/runbooks/DraReserveDeschedulerPluginFails.md", ROUNDS),
    Page("docs/runbooks/DraReserveLoadUnknown.md", ROUNDS),
    Page("docs/runbooks/DraReserveApprovalsWait.md", ROUNDS),
    Page("docs/runbooks/DraReserveNobodyLeads.md", KNOWN),
    Page("docs/how-to/scheduling-gate.md", KNOWN),
    Page("docs/runbooks/DraReserveNobodyMigrates.md"),
    Page("docs/runbooks/DraReserveOrphans.md"),
    Page("docs/runbooks/DraReservePluginImpaired.md"),
    Page("docs/runbooks/DraReservePluginNotEnforced.md"),
    Page("docs/runbooks/DraReservePluginNotRegistered.md"),
    Page("docs/runbooks/DraReserveSlowListing.md"),
    Page("docs/runbooks/DraReserveTwoControllers.md"),
    Page("docs/runbooks/DraReserveColocationConfigInvalid.md", before=CONFIGURED),
    Page("docs/runbooks/DraReserveNodeMetricsStale.md"),
    Page("docs/runbooks/DraReserveSuppressionBlind.md"),
    Page("docs/runbooks/DraReserveBatchPodsStarve.md"),
    Page("docs/runbooks/DraReserveBatchLimitsReset.md"),
    Page("docs/runbooks/DraReserveNobodyAppliesProfiles.md"),
    Page("docs/how-to/descheduling.md"),
    Page("docs/how-to/from-the-communitys-descheduler.md"),
    Page("docs/how-to/from-koordinators-descheduler.md"),
    Page("examples/descheduling/README.md"),
    Page("docs/how-to/reserve-ahead.md"),
    Page("docs/how-to/upgrade.md"),
    Page("docs/how-to/backup-and-restore.md"),
    Page("docs/how-to/kubelet-plugin.md"),
    Page("docs/how-to/local-plane.md"),
    Page("docs/explanation/podgroups.md"),
    Page("docs/how-to/release-from-your-controller.md"),
    Page("docs/how-to/scheduler-extender.md"),
    Page("docs/how-to/verify.md"),
    Page("docs/how-to/troubleshooting.md"),
    Page("README.md", INSTALLED),
    Page("docs/how-to/switching-off.md", ((r"\bnode NAME\b", "node node-1"),)),
    Page("docs/how-to/autoscalers.md"),
    Page("docs/how-to/colocation.md", COLOCATED),
    Page("examples/reservations/README.md", ((r"^dra-reserve local up --detach$", ""),)),
    Page("examples/reserve-devices/README.md"),
    Page("examples/cpus/README.md", alone=True),
    Page("examples/koordinator/README.md", before=NO_GPU_POD, alone=True),
    Page("examples/migrations/rolling-update/README.md", before=NO_RESERVATIONS, alone=True),
    Page("examples/colocation/README.md", ON_THE_PLANE, before=ALONE, alone=True),
    Page("examples/drain/README.md", alone=True),
    Page("examples/drain/README.md", alone=True, long=True),
    Page("examples/migrations/drain-a-node/README.md", before=NO_TRAINING, alone=True),
    Page("docs/how-to/downgrade.md", before=ALONE, alone=True),
    Page("docs/how-to/uninstall.md", before=ALONE, alone=True),
)
"""In this order, the longest first; those that take everything away are the last."""

ELSEWHERE: dict[str, str] = {
    "docs/how-to/install.md": "tests/scenarios/test_install.py",
    "README.md#Start": "tests/test_demo.py",
    "docs/how-to/real-cluster.md": "tests/scenarios/test_examples.py",
    "README.md#Install": "tests/scenarios/test_install.py",
    "docs/design/releasing.md": "tests/release/test_pages.py",
    "docs/how-to/metrics.md": "tests/deploy/test_chart.py",
    "docs/how-to/page.md#In the cluster, for several users": "tests/scenarios/page/test_page.py",
    "docs/how-to/page.md#Sign in": "tests/scenarios/page/test_page.py",
    "docs/how-to/page.md#Behind an Ingress": "tests/deploy/test_chart.py",
    "docs/how-to/page.md#Rights, metrics, remove": "tests/scenarios/page/test_page.py",
    "docs/how-to/kubelet-plugin.md#What it publishes": "tests/test_plugin_page.py",
    "examples/descheduler-plugin/README.md": "tests/test_descheduler_plugin_example.py",
    "examples/shared-claim/README.md": "tests/scenarios/test_examples.py",
    "examples/reservations/by-controller/README.md": "tests/scenarios/reservations/test_examples.py",
    "examples/reservations/by-label/README.md": "tests/scenarios/reservations/test_examples.py",
    "examples/reservations/by-name/README.md": "tests/scenarios/reservations/test_examples.py",
    "examples/reservations/deleted/README.md": "tests/scenarios/reservations/test_examples.py",
    "examples/reservations/expiry/README.md": "tests/scenarios/reservations/test_examples.py",
    "examples/reservations/shared/README.md": "tests/scenarios/reservations/test_examples.py",
}
"""Block → the test that runs it; it reads the page itself, so that the two cannot part."""

BY_THE_READER: dict[str, str] = {
    "docs/how-to/gpus.md": "it needs drivers and policies: tests/scenarios/koordinator has both",
    "docs/how-to/koordinator.md": "it needs drivers and policies: tests/scenarios/koordinator has both",
    "docs/how-to/migrations.md": "it needs a descheduler: tests/dra/cli/kubectl/migrate/test_command.py plays one",
    "docs/how-to/descheduling.md#Approve each migration": (
        "it needs a job that waits: tests/dra/cli/kubectl/migrations/test_approvals.py makes one"
    ),
    "docs/how-to/page.md": "it serves a browser until Ctrl-C: tests/page has one",
    "docs/how-to/reserve-on-managed.md": "its scheduler asks nobody: tests/scenarios/reservations/test_yielding.py",
    "docs/how-to/platforms.md": "a plane is no such platform: tests/scenarios/test_preflight.py has the command",
    "docs/design/colocation-on-the-node.md": "it is for a node: tests/scenarios/real_node/test_batch_pods.py",
    "docs/reference/rights.md": "its answers are the reader's rights: tests/scenarios/test_preflight.py has both kinds",
    "README.md#Develop": "it is what runs the tests",
    "docs/reference/kubernetes-versions.md": "builds another Kubernetes for tests/scenarios, which takes minutes",
    "docs/design/simulating.md": "it is a test itself: tests/scenarios/test_simulate.py",
}
"""Block → why no test can run it."""

NOBODY_ANSWERS = {
    re.compile(r"^kubectl logs\b"): "no container runs on a plane, so there are no logs",
    re.compile(r"^kubectl top\b"): "a plane has no metrics API",
    re.compile(
        r"^dra-reserve local up --plugins own"
    ): "one more plane: tests/dra/cli/local/test_plugin_processes.py starts such",
    re.compile(r"^kubectl exec\b|\| kubectl exec\b"): "no container runs on a plane",
    re.compile(
        r"-k deploy/(kustomize|kubelet-plugin|reservations|descheduler|colocation)|-f deploy/(policies|colocation/own-)"
    ): "a plane has no admission policies",
    re.compile(r"/sys/fs/resctrl"): "a plane has no resctrl",
    re.compile(
        r"^kubectl get configmap (descheduler|koord-descheduler-config) "
    ): "a plane has no other descheduler whose configuration could be read",
    re.compile(r"rollout status daemonset"): "a plane only stores DaemonSets",
    re.compile(
        r"^kubectl (get|delete) podgroups"
    ): "a plane has no PodGroups: tests/scenarios/behind_gates/test_pod_groups.py",
    re.compile(r"\| kubectl delete --raw /apis/scheduling"): "it removes a PodGroup that no API server can decode",
    re.compile(r"^helm "): "there is no release of it on the plane; tests/deploy/test_chart.py reads such commands",
    re.compile(r"^kubectl dra install\b"): "a plane has no admission policies: tests/scenarios/test_gate_policy.py",
    re.compile(r"^kubectl dra preflight\b"): "a plane is no installation: tests/scenarios/test_preflight.py",
    re.compile(
        r"^kubectl dra uninstall"
    ): "steps of the downgrade remain on the plane of the pages: tests/scenarios/test_install.py",
    re.compile(r"^kubectl dra adopt"): "the controller of a plane takes no lease: tests/scenarios/test_downgrade.py",
    re.compile(
        r"^kubectl scale deployment/dra-reserve-controller"
    ): "likewise; and to `downgrade` an unknown one is a stop",
    re.compile(r"gpu-node-"): "those are nodes of the reader's: tests/dra/cli/kubectl/simulate",
}
"""Commands of pages that are followed here, but for these, and why."""


def place(page: str, block: Block) -> str:
    """Say where a block is run: the page itself if it is followed, a test, or why nobody does; nothing if unknown."""
    if not block.runnable:
        return "each command says why it is not run"
    for key in (f"{page}#{block.section}", page):
        for known in (ELSEWHERE, BY_THE_READER):
            if key in known:
                return known[key]
    return page if any(each.path == page for each in FOLLOWED) else ""


def keys(page: str) -> set[str]:
    """Return the names under which blocks of a page may be told."""
    return {page} | {f"{page}#{block.section}" for block in blocks(page)}
