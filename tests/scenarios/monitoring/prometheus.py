"""A real Prometheus on loopback, built from its own Go module, and its HTTP API."""

from __future__ import annotations

import json
import subprocess
import time
from functools import partial
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import yaml

from tests.cluster import binaries
from tests.cluster.ports import LOOPBACK, free
from tests.cluster.probes import healthy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from tests.cluster.run_folder import RunFolder

Json = dict[str, Any]

INTERVAL: Final = "1s"
"""Between two scrapes, and between two evaluations of the rules: a test waits for several of them."""


class RefusedError(RuntimeError):
    """Prometheus refused a question; the text has its own words."""


class Prometheus:
    """One server with its own data; it ends with the folder."""

    def __init__(self, folder: RunFolder, *, name: str, scrape: Sequence[Json], rules: Path) -> None:
        (self.port,) = free(1)
        file = folder.path / f"{name}.yaml"
        configuration = {
            "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
            "rule_files": [str(rules)],
            "scrape_configs": list(scrape),
        }
        file.write_text(yaml.safe_dump(configuration), encoding="utf-8")
        command = [
            str(binaries.build(binaries.prometheus())),
            f"--config.file={file}",
            f"--storage.tsdb.path={folder.path / name}",
            f"--web.listen-address={LOOPBACK}:{self.port}",
        ]
        self.process = folder.process(name, command, ready=partial(healthy, self.port, "/-/ready", tls=False))

    def query(self, expression: str) -> list[Json]:
        """Return the series that an expression has now; whatever Prometheus remarks about it is an error."""
        answer = self._get("/api/v1/query", query=expression)
        remarks = [*answer.get("warnings", ()), *answer.get("infos", ())]
        if remarks:
            raise RefusedError(f"{expression}: {'; '.join(remarks)}")
        return list(answer["data"]["result"])

    def targets(self) -> list[Json]:
        """Return what is scraped."""
        return list(self._get("/api/v1/targets", state="active")["data"]["activeTargets"])

    def metadata(self, **labels: str) -> dict[str, Json]:
        """Return type and help of each metric of one target."""
        selector = "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items()) + "}"
        found = self._get("/api/v1/targets/metadata", match_target=selector)["data"]
        return {each["metric"]: each for each in found}

    def series(self, selector: str) -> list[dict[str, str]]:
        """Return the labels of all series that a selector has had."""
        return list(self._get("/api/v1/series", **{"match[]": selector})["data"])

    def parsed(self, expression: str) -> Json:
        """Return an expression as Prometheus understands it."""
        return dict(self._get("/api/v1/parse_query", query=expression)["data"])

    def rules(self) -> list[Json]:
        """Return the rules that are loaded, each with its health."""
        return [rule for group in self._get("/api/v1/rules")["data"]["groups"] for rule in group["rules"]]

    def _get(self, path: str, **query: str) -> Json:
        connection = HTTPConnection(LOOPBACK, self.port, timeout=30)
        try:
            connection.request("GET", f"{path}?{urlencode(query)}")
            answer: Json = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if answer["status"] != "success":
            raise RefusedError(f"{path} {query}: {answer.get('errorType')}: {answer.get('error')}")
        return answer


def promtool(*arguments: str, stdin: str = "") -> str:
    """Run promtool and return what it printed; a remark of its linter is an error, too."""
    command = [str(binaries.build(binaries.promtool())), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise RefusedError(f"promtool {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def play(folder: RunFolder, *, name: str, until: Callable[[float], Iterable[str]]) -> None:
    """Leave in the storage of the server of this name what scrapes `until` now would have left, in the text format.

    The programs are built before the time is taken: a first build takes minutes, in which what ends now would age.
    """
    for program in (binaries.promtool(), binaries.prometheus()):
        binaries.build(program)
    text = folder.path / f"{name}.txt"
    text.write_text("\n".join(until(time.time())) + "\n", encoding="utf-8")
    promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(folder.path / name))


def selectors(node: Json) -> list[Json]:
    """Return the selectors of a parsed expression, ranges without their length."""
    if node["type"] in {"vectorSelector", "matrixSelector"}:
        return [node]
    children = [node.get(name) for name in ("expr", "param", "lhs", "rhs")] + list(node.get("args") or ())
    return [found for child in children if child for found in selectors(child)]


def discovering(configuration: Json, *, kubeconfig: Path) -> Json:
    """Return a scrape configuration that looks for pods in another cluster than its own."""
    found = [{**each, "kubeconfig_file": str(kubeconfig)} for each in configuration["kubernetes_sd_configs"]]
    return {**configuration, "scrape_interval": INTERVAL, "kubernetes_sd_configs": found}


def of_monitor(monitor: Json) -> Json:
    """Return the scrape configuration that the Prometheus operator makes of a PodMonitor, as far as ours go."""
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    keep: list[Json] = [
        {
            "source_labels": [f"__meta_kubernetes_pod_label_{_escaped(label)}"],
            "regex": value,
            "action": "keep",
        }
        for label, value in monitor["spec"]["selector"]["matchLabels"].items()
    ]
    keep.append(
        {
            "source_labels": ["__meta_kubernetes_pod_container_port_name"],
            "regex": endpoint["port"],
            "action": "keep",
        }
    )
    names = {"namespace": "namespace", "container": "pod_container_name", "pod": "pod_name"}
    namespace = monitor["metadata"]["namespace"]
    return {
        "job_name": f"podMonitor/{namespace}/{monitor['metadata']['name']}/0",
        "metrics_path": endpoint["path"],
        "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [namespace]}}],
        "relabel_configs": [
            {"source_labels": ["__meta_kubernetes_pod_phase"], "regex": "(Failed|Succeeded)", "action": "drop"},
            *keep,
            *({"source_labels": [f"__meta_kubernetes_{of}"], "target_label": name} for name, of in names.items()),
            {"target_label": "job", "replacement": f"{namespace}/{monitor['metadata']['name']}"},
            {"target_label": "endpoint", "replacement": endpoint["port"]},
        ],
    }


def _escaped(label: str) -> str:
    return "".join(each if each.isalnum() else "_" for each in label)
