"""Order of resourceVersions: upstream promises since 1.35 that they compare as numbers."""


def is_newer(version: str, known: str) -> bool:
    """Whether a resourceVersion is later than another one; where nobody can tell, each other one is."""
    try:
        return int(version) > int(known)
    except ValueError:
        return version != known


def list_covers(list_version: str, version: str) -> bool:
    """Whether a list certainly is not older than a version of an object."""
    return list_version.isdecimal() and version.isdecimal() and int(list_version) >= int(version)
