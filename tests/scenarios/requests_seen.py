"""The requests that a test cluster's API server has seen: who sent what, from its audit log."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}


class AuditLog:
    """The log of one API server, which is started with `flags`."""

    def __init__(self, folder: Path) -> None:
        policy, self._log = folder / "policy.json", folder / "audit.log"
        policy.write_text(json.dumps(POLICY), encoding="utf-8")
        self.flags: Final = (f"--audit-policy-file={policy}", f"--audit-log-path={self._log}")

    def succeeded(self, user: str, *, namespace: str, names: str) -> Counter[str]:
        """Return how often a user did what to objects whose names begin so; as ``create pods/binding``."""
        counts: Counter[str] = Counter()
        for line in self._log.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            about = event.get("objectRef", {})
            done = event["responseStatus"]["code"] < 300 and event["user"]["username"] == user
            if done and about.get("namespace") == namespace and about.get("name", "").startswith(names):
                kind = "/".join(filter(None, (about["resource"], about.get("subresource"))))
                counts[f"{event['verb']} {kind}"] += 1
        return counts
