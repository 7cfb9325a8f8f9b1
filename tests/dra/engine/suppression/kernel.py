"""What the kernel makes of writes to CPU and memory files, one at a time; tried on Linux 6.18."""

from fractions import Fraction

from msgspec.structs import replace

from dra.engine.suppression.writes import CgroupFile, CgroupWrite


class RefusedError(Exception):
    """EINVAL or EBUSY."""


class Kernel:
    """A tree of cgroups; v1 keeps quotas of a tree consistent at each single write, v2 kills for memory."""

    def __init__(self, states, *, unified=False):
        self.states = {state.path: state for state in states}
        self.unified = unified
        self.killed = set()

    def write(self, write: CgroupWrite):
        state = self.states[write.path]
        match write.file:
            case CgroupFile.QUOTA:
                self._write_quota(state, write.value)
            case CgroupFile.BURST:
                if state.quota is not None and write.value > state.quota:
                    raise RefusedError(f"{write}: EINVAL, the quota is {state.quota}")
                self._set(state, burst=write.value)
            case CgroupFile.SHARES:
                if state.is_idle:
                    raise RefusedError(f"{write}: EINVAL, cpu.idle is set")
                self._set(state, shares=min(max(write.value, 2), 262144))
            case CgroupFile.MEMORY:
                self._write_memory(state, write.value)

    def _write_quota(self, state, quota):
        if quota is not None and quota < 1000:
            raise RefusedError(f"{state.path}: EINVAL, {quota} is less than 1000")
        if quota is not None and state.burst > quota:
            raise RefusedError(f"{state.path}: EINVAL, the burst is {state.burst}")
        after = self.states | {state.path: replace(state, quota=quota)}
        if not self.unified:
            for path, bounds in ((path, self._bounds(after, path)) for path in after):
                own = after[path].quota
                if own is not None and any(Fraction(own, after[path].period) > bound for bound in bounds):
                    raise RefusedError(f"{state.path}: EINVAL, {quota} does not fit {path}")
        self.states = after

    def _write_memory(self, state, limit):
        if limit is not None and state.memory_used is not None and state.memory_used > limit:
            if not self.unified:
                raise RefusedError(f"{state.path}: EBUSY, {state.memory_used} bytes are in use")
            self.killed.add(state.path)
        self._set(state, memory=None if limit is None else limit // 4096 * 4096)

    def _set(self, state, **values):
        self.states[state.path] = replace(state, **values)

    @staticmethod
    def _bounds(states, path):
        above = (states.get(path[:length]) for length in range(len(path)))
        return [Fraction(each.quota, each.period) for each in above if each is not None and each.quota is not None]
