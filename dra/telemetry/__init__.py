"""What a process of ours tells of itself: log lines, probes, metrics. Used by controller and kubelet plugin."""
