"""Writes what Prometheus and Grafana read from alerts.py and dashboard.py; with ``--check`` it only compares.

- ``alerts.yaml``: a file of rules, as Prometheus itself reads them
- ``prometheus-rule.yaml``: the same for the Prometheus operator
- ``dashboard.json``: to be imported into Grafana
- docs/how-to/metrics.md: the table of alerts
"""

import json
import sys
from pathlib import Path
from typing import Final

import yaml

from release.monitoring.alerts import ALERTS, group
from release.monitoring.dashboard import dashboard

HERE: Final = Path(__file__).parents[2] / "deploy/monitoring"
PAGE: Final = HERE.parents[1] / "docs" / "how-to" / "metrics.md"
BEGIN: Final = "<!-- alerts -->\n"
END: Final = "<!-- /alerts -->\n"
_WRITTEN: Final = "# Written by `python -m release.monitoring` from alerts.py.\n"


def files() -> dict[Path, str]:
    """Return each file and what it should contain."""
    groups = {"groups": [group()]}
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "dra-reserve", "namespace": "dra-reserve"},
        "spec": groups,
    }
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return {
        HERE / "alerts.yaml": _WRITTEN + yaml.safe_dump(groups, sort_keys=False, width=1000),
        HERE / "prometheus-rule.yaml": _WRITTEN + yaml.safe_dump(rule, sort_keys=False, width=1000),
        HERE / "dashboard.json": json.dumps(dashboard(), indent=1) + "\n",
        PAGE: before + BEGIN + _table() + END + rest.partition(END)[2],
    }


def _table() -> str:
    lines = ["| alert | what is so | severity |", "|---|---|---|"]
    lines += [
        f"| [{alert.name}](../runbooks/{alert.name}.md) | {alert.summary} | {alert.severity.value} |"
        for alert in ALERTS
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the files, or say which are not what they should be."""
    if arguments != ["--check"]:
        for path, text in files().items():
            path.write_text(text, encoding="utf-8")
        return 0
    wrong = [path for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in wrong:
        sys.stderr.write(f"error: {path}: not what release/monitoring makes; run: python -m release.monitoring\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
