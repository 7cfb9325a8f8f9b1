"""The descheduler process: migrations of pods (PodMigrationJobs)."""
