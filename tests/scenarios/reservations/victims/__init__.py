"""Victims: kube-scheduler alone, kube-scheduler with our extender, and `kubectl dra simulate` choose the same pods."""
