"""The use of node and pods: reads the kernel's counters, samples them, and reports them in the NodeMetric.

`dra.engine.usage` computes; the modules here access the kernel and the API server.
"""
