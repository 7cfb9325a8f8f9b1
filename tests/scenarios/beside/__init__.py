"""Scenarios beside other parties: queues, autoscalers, other schedulers and backups, played as their sources say."""
