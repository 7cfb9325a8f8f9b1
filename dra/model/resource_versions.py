"""The order of resourceVersions: upstream guarantees since 1.35 that they compare as numbers."""


def is_newer(version: str, known: str) -> bool:
    """Report whether a resourceVersion is later than a known one; if they are not numbers, any other one is later."""
    try:
        return int(version) > int(known)
    except ValueError:
        return version != known


def is_older(version: str, known: str) -> bool:
    """Report whether a resourceVersion is certainly earlier than a known one."""
    return version.isdecimal() and known.isdecimal() and int(version) < int(known)


def list_covers(list_version: str, version: str) -> bool:
    """Report whether a list is certainly not older than a version of an object."""
    return list_version.isdecimal() and version.isdecimal() and int(list_version) >= int(version)
