"""Our descheduling plugins against the community's own (tests/cluster/descheduler), cluster by cluster.

``clusters`` makes clusters from seeds and ``policies`` a policy for each plugin, ``judge`` asks both sides,
``differences`` compares the answers and knows where they differ on purpose. The community's answers are recorded in
``answers.jsonl.gz``, so that the tests need no Go; ``make descheduler-peer`` asks it anew.
"""
