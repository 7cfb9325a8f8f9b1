"""``kubectl dra preflight``: whether a cluster is ready, looked at and not guessed."""
