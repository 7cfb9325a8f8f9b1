"""Unmodified Kubernetes on this machine: etcd and every control plane component from upstream's own source, nodes by kwok.

A library, used by the scenarios and from the command line (``python -m tests.cluster``). From the bottom up: ``binaries``
builds the programs, ``run_folder`` owns what a run leaves on the machine, ``components`` knows the command lines,
``fake_nodes`` has the nodes, ``cluster`` puts it together. No code of dra-reserve is imported here: what is tested must
not help to test itself.
"""
