"""An older build of dra-reserve beside this one: what docs/how-to/upgrade.md promises (make test-older-build)."""
