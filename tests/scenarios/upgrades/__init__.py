"""A live cluster goes to the next version of Kubernetes and back, under claims: `make test-upgrade`."""
