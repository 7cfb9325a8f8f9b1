"""What node and pods use: reads the kernel's counters, samples them, and reports them in the NodeMetric.

`dra.engine.usage` computes; the modules here access the kernel and the API server.
"""
