"""Telemetry of the controller and the kubelet plugin: log lines, probes, metrics."""
