"""A small cluster in one process: an API server, a scheduler, kubelets, owners of workloads, and our controller.

Each actor does what the unmodified component of Kubernetes 1.36.3 does, as far as claims go; every model names the
upstream function that it was read from. Whoever talks to the API server is a *process*: a generator that stops before
each request, so that anything may happen in between and any request may fail, get lost or come late (``requests``).

From the bottom up: ``objects``; ``server``; the actors ``scheduler``, ``kubelets``, ``stock_controller``,
``reservations`` and ``controller``; ``binding_observations``, which says what a process can know of a slow scheduler;
``safety`` and ``write_checker``, which check every write and know what must never happen; ``cluster``, which puts them
together; ``liveness``, which says what must hold in the end; ``moves`` and ``swarm``, from which ``histories`` makes
the history of a seed; ``campaign``, which plays many.
"""
