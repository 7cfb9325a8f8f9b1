"""Runs a test cluster until Ctrl-C, for a look around with kubectl.

python -m tests.cluster [--replace] [--nodes N] [--real-node]
"""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import ExitStack

from tests.cluster.cluster import Cluster
from tests.cluster.kubelet import REAL
from tests.cluster.node import RealNode
from tests.cluster.options import ALL_CONTROLLERS, WITHOUT_CLAIM_CONTROLLER, Options


def main() -> None:
    """Start, tell how to reach it, wait, stop."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description="Run a test cluster until Ctrl-C.")
    parser.add_argument("--replace", action="store_true", help="without the stock resource claim controller")
    parser.add_argument("--nodes", type=int, default=Options.nodes, metavar="N", help="fake nodes (default: 3)")
    parser.add_argument("--real-node", action="store_true", help="a kubelet and containerd, too (needs root and runc)")
    arguments = parser.parse_args()
    controllers = WITHOUT_CLAIM_CONTROLLER if arguments.replace else ALL_CONTROLLERS
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(Options(controllers=controllers, nodes=arguments.nodes)))
        node = stack.enter_context(RealNode(cluster)) if arguments.real_node else None
        sys.stdout.write(f"Kubernetes {cluster.kubernetes} runs; Ctrl-C stops it. In another terminal:\n")
        sys.stdout.write(f"  export KUBECONFIG={cluster.admin_kubeconfig}\n")
        if node is not None:
            sys.stdout.write(f"Pods that tolerate {REAL} run on {node.name}; its files are in {node.folder.path}\n")
        sys.stdout.flush()
        try:
            signal.pause()
        except KeyboardInterrupt:
            sys.stdout.write("stopping\n")


if __name__ == "__main__":
    main()
