"""Semantic versions of device attributes, as far as kube-scheduler compares them (https://semver.org)."""


def without_build_metadata(version: str) -> str:
    """Return the part of a version that decides its precedence: versions are equal if these parts are."""
    return version.partition("+")[0]


def numeric_identifiers(version: str) -> list[str]:
    """Return the numbers of a version: of its core, and of its pre-release identifiers without letters."""
    core, _, pre_release = without_build_metadata(version).partition("-")
    return [part for part in (*core.split("."), *pre_release.split(".")) if part.isdecimal()]
