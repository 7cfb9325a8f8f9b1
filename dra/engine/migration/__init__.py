"""Migrations: which PodMigrationJobs may begin (arbitration), and the next step of each."""
