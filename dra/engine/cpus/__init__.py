"""CPUs of one machine: the topology, the choice of CPUs for a request, and the shared pool that is left. Pure."""
