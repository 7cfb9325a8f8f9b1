"""``kubectl dra migrate``: which pods are migrated, what would happen, and the jobs."""
