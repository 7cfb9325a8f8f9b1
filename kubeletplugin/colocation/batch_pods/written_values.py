"""Remembers what was written to cgroups, to tell when somebody else has written another value since.

systemd writes the whole unit of a slice when one property changes or its units are reloaded; other agents write what
they think right. Such a value is replaced at once, and counted: two writers of one file are a fault to be found. Only
what a kubelet with the systemd driver does to the class each minute is no fault, and not counted.
"""

from collections.abc import Iterable, Iterator

from dra.engine.suppression.writes import CgroupFile, CgroupPath, CgroupState, CgroupWrite


class WrittenValues:
    """The values that were written last, by cgroup and file; bounded by the cgroups that exist."""

    def __init__(self) -> None:
        self._values: dict[tuple[CgroupPath, CgroupFile], int | None] = {}

    def get(self, path: CgroupPath, file: CgroupFile) -> int | None:
        """Return the value that was written last; None if none was, or if a limit was lifted."""
        return self._values.get((path, file))

    def record(self, write: CgroupWrite) -> None:
        """Remember a write that the kernel has accepted."""
        self._values[write.path, write.file] = write.value

    def forget(self, path: CgroupPath, file: CgroupFile) -> None:
        """Forget one value: it is not ours any more."""
        self._values.pop((path, file), None)

    def keep_only(self, paths: Iterable[CgroupPath]) -> None:
        """Forget the values of all cgroups but these."""
        kept = set(paths)
        self._values = {key: value for key, value in self._values.items() if key[0] in kept}

    def reset_by_others(self, states: Iterable[CgroupState], *, quotas_only: bool) -> Iterator[CgroupWrite]:
        """Yield the writes that others have undone, with the values that were ours."""
        for state in states:
            present = {CgroupFile.QUOTA: state.quota}
            if not quotas_only:
                present |= {CgroupFile.SHARES: state.shares, CgroupFile.MEMORY: state.memory}
            for file, value in present.items():
                if (state.path, file) in self._values and self._values[state.path, file] != value:
                    yield CgroupWrite(path=state.path, file=file, value=self._values[state.path, file])
