"""Where a command gets what it explains from: a cluster, read page by page, or a bundle that somebody sent."""
