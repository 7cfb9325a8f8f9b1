"""The extender as the binder of pods, on real Kubernetes."""
