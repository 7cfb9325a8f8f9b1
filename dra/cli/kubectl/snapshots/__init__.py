"""Sources of snapshots for the commands: a cluster, read page by page, or a bundle from another user."""
