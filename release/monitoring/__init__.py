"""Alerts and the dashboard as data; ``python -m release.monitoring`` writes the files in deploy/monitoring."""
