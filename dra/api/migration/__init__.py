"""PodMigrationJobs, Koordinator's kind: what users write, and the CustomResourceDefinition."""
