"""A container as its Deployment has it, run as a process: what an installation says is tried, and not what we know.

Arguments, environment, mounted files and the service account are those of the object on the API server. The process
sees them where a container would: in a mount namespace of its own, where /etc and /run are otherwise empty. Its address
stands for the pod's: what is to listen on all addresses listens there, at the ports that are written.

Not the container's: the image, its user, and what limits it; the program is the one of the working tree.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import urllib.request
from typing import TYPE_CHECKING, Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit

from tests.cluster.kubectl import kubectl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.cluster.processes import Process
    from tests.cluster.run_folder import RunFolder

ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
EVERYWHERE: Final = "0.0.0.0"  # noqa: S104 - nobody listens there: it is replaced
HIDDEN: Final = ("/etc", "/run")

Json = dict[str, Any]


class Container:
    """The only container of a Deployment's pods."""

    def __init__(
        self, folder: RunFolder, *, admin: Path, namespace: str, deployment: str, program: Sequence[str], address: str
    ) -> None:
        """``program``: what the image's entry point is; ``address``: on loopback, nobody else's."""
        self._admin, self._namespace, self.address = admin, namespace, address
        pod = self._get("deployment", deployment)["spec"]["template"]["spec"]
        (self.container,) = pod["containers"]
        self._root: Final = folder.path / deployment
        self._mount(pod)
        self._write_account(pod)
        command = [*self.container.get("command", program), *self.container.get("args", [])]
        script = [
            *(f"mount -t tmpfs -o mode=755 hidden {each}" for each in HIDDEN),
            f"cp -a {shlex.quote(str(self._root))}/. /",
            "cd /",
            f"exec {shlex.join(command)}",
        ]
        inside = ["unshare", "--mount", "--propagation=private", "sh", "-ec", "\n".join(script)]
        self.process: Final[Process] = folder.process(deployment, inside, ready=self._ready)
        self.process.env = self._environment()

    def port(self, name: str) -> int:
        """Return a port of the container."""
        return next(int(each["containerPort"]) for each in self.container["ports"] if each["name"] == name)

    def read(self, path: str, *, port: str) -> str:
        """Return what the container answers."""
        url = f"http://{self.address}:{self.port(port)}{path}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    def _ready(self) -> bool:
        probe = self.container["readinessProbe"]["httpGet"]
        try:
            self.read(probe["path"], port=probe["port"])
        except (URLError, OSError):
            return False
        return True

    def _environment(self) -> dict[str, str]:
        server = urlsplit(json.loads(self._admin.read_text())["clusters"][0]["cluster"]["server"])
        given = {each["name"]: each["value"] for each in self.container.get("env", ())}
        there = {"KUBERNETES_SERVICE_HOST": str(server.hostname), "KUBERNETES_SERVICE_PORT": str(server.port)}
        return {"PATH": os.environ["PATH"], **there, **given}

    def _mount(self, pod: Json) -> None:
        volumes = {each["name"]: each for each in pod.get("volumes", ())}
        for mount in self.container.get("volumeMounts", ()):
            volume = volumes[mount["name"]]
            if (found := volume.get("configMap")) is not None:
                texts = self._get("configmap", found["name"])["data"]
                files = {name: text.replace(EVERYWHERE, self.address).encode() for name, text in texts.items()}
            else:
                secret = self._get("secret", volume["secret"]["secretName"])["data"]
                files = {name: base64.b64decode(text) for name, text in secret.items()}
            self._write(mount["mountPath"], files)

    def _write_account(self, pod: Json) -> None:
        if not pod.get("automountServiceAccountToken", True):
            return
        token = kubectl(
            "create", "token", pod["serviceAccountName"], f"--namespace={self._namespace}", kubeconfig=self._admin
        )
        authority = json.loads(self._admin.read_text())["clusters"][0]["cluster"]["certificate-authority-data"]
        files = {"token": token.strip().encode(), "ca.crt": base64.b64decode(authority)}
        self._write(ACCOUNT, files | {"namespace": self._namespace.encode()})

    def _write(self, path: str, files: dict[str, bytes]) -> None:
        folder = self._root / path.removeprefix("/var").lstrip("/")  # /var/run is a link to /run
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)

    def _get(self, kind: str, name: str) -> Json:
        found: Json = json.loads(
            kubectl("get", kind, name, f"--namespace={self._namespace}", "--output=json", kubeconfig=self._admin)
        )
        return found
