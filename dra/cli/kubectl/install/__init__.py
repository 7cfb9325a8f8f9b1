"""Installs dra-reserve from the manifests of the package, by a plan that the user confirms."""
