"""What users can rely on, told as scenarios and played on real Kubernetes.

The modules without ``test_`` in front are the kit: a client of their own (``api``), objects, waiting, the history of a
claim, namespaces, the controller as a process. It never imports dra-reserve: it sees what a user with kubectl sees.
"""
