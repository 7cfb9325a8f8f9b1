"""The whole system in one process on virtual time: API server, controller, scheduler, nodes, users, faults.

Nothing here is a model of ours: the server is `localplane.server`, the controller `controller.application`, scheduler,
kubelets and workload controllers those of the local plane, and whoever talks to the server does so through
`dra.kube.client`, like anybody else. What is modelled is bad luck. One seed decides on all of it beforehand, as a list
of operations (`scenario`, `operations`): who arrives when, which requests fail how, who crashes before or after which
write, which node is lost. So a failing history is made shorter by leaving out operations (`shrink`), and the same seed
always gives the same writes.

`disruptions` draws what is rare by itself: nodes that are removed or lose their labels, backups that are restored,
watches that lag, preemption, pods of a scheduler that does not run, containers that outlive their pods. A campaign
counts operations by kind, and fails where one is rare.

`beside` draws who else works on pods and nodes: an autoscaler that deletes nodes as empty and adds some (`autoscaler`),
a queue that gates, admits, evicts and suspends (`kueue`). Both go on after the last operation.

From the bottom up: `virtual_loop` (time), `processes` (who can crash), `simulated_cluster` (everything together),
`write_log` (what was written), `safety` (what must never be, checked after each write), `capacity` (where a pod could
run), `liveness` (what must hold once nothing more happens), `runner` (one seed), `campaign` (many of them, on all
cores), `mutations` (broken rules that must be found). `comparison` plays seeds on two trees, each through `recording`,
and tells which end in another state or write something else.

    python -m tests.simulation 4711          # one seed; says what it did, and if it failed the shortest way to fail
    python -m tests.simulation --seeds 2000  # a campaign, from a first seed that is drawn and printed
"""
