"""Colocation under faults: nodes report what they use, or lie about it, and the controller offers what is left.

Whatever fails, batch pods that run keep what they hold, and nothing is offered on the word of a measurement that is
old or cannot be. `safety` looks at each write, and at each restart of a kubelet; `liveness` looks at the end, when
nothing fails any more: each node offers what the formula says, only what is held after its agent has gone, and nothing
once colocation is off. `nodes` is what really happens on the nodes, `agents` what their agents tell.

`suppression` is a node by itself: a kernel that divides its CPUs by shares and quotas, others that write the same
files, and the rules of `dra.engine.suppression` each second.

A seed is one history: ``python -m tests.simulation.colocation SEED`` plays it, ``--seeds N`` plays many.
"""
