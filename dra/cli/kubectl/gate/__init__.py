"""The scheduling gate of pods: which namespaces ask for it, what it costs, and the way out of it."""
