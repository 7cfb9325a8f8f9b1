"""The whole system in one process on virtual time: API server, controller, scheduler, nodes, users, faults.

Nothing here is a model of ours: the server is `localplane.server`, the controller `controller.application`, scheduler,
kubelets and workload controllers those of the local plane, and whoever talks to the server does so through
`dra.kube.client`, like anybody else. What is modelled is bad luck. One seed decides on all of it beforehand, as a list
of decisions (`scenario`, `decisions`): who arrives when, which requests fail how, who crashes before or after which
write, which node is lost. So a failing history is made shorter by leaving out decisions (`shrink`), and the same seed
always gives the same writes.

`upheavals` draws what is rare by itself: nodes that are removed or lose their labels, backups that are restored,
watches that lag, preemption, pods of a scheduler that does not run, containers that outlive their pods. A campaign
counts decisions by kind, and fails where one is rare.

From the bottom up: `loop` (time), `processes` (who can crash), `world` (everything together), `chronicle` (what was
written), `audit` (safety: what must never be, looked at after each write), `calm` (liveness: what must hold once
nothing more happens), `play` (one seed), `campaign` (many of them, on all cores), `mutations` (broken rules that must
be found).

    python -m tests.simulation 4711          # one seed; says what it did, and if it failed the shortest way to fail
    python -m tests.simulation --seeds 2000  # a campaign, from a first seed that is drawn and printed
"""
