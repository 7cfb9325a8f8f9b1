"""Unmodified Kubernetes on this machine: the control plane built from upstream's own source, nodes played by kwok.

A library for the scenarios, and a command to look around with (``python -m tests.cluster``). From the bottom up:
``binaries`` builds the programs, ``run_folder`` owns what a run leaves on the machine, ``components`` knows the command
lines, ``fake_nodes`` has the nodes, ``cluster`` puts it together; ``node`` is a real node beside them. No code of
dra-reserve is imported here: what is tested must not help to test itself.
"""
