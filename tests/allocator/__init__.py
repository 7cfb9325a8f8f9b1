"""The allocator of `dra.engine.allocator` against kube-scheduler's own (tests/cluster/allocator), case by case.

``cases`` makes questions from seeds, ``judge`` asks both allocators, ``differences`` compares the answers and knows
where they differ on purpose. ``make allocator`` compares 2,000 cases.
"""
