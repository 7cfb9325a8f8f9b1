"""Sets of completion indexes in their text form: ``1,3-5,7``."""

from collections.abc import Iterable, Iterator


def parse_indexes(text: str, *, limit: int) -> set[int]:
    """Return the indexes below a limit; unreadable parts are skipped."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            indexes.update(range(int(first), min(int(last or first), limit - 1) + 1))
    return {index for index in indexes if index < limit}


def format_indexes(indexes: Iterable[int]) -> str:
    """Return the shortest text for a set of indexes."""
    parts: list[str] = []
    for first, last in _intervals(sorted(indexes)):
        # Two neighbours are listed separately, as upstream does.
        parts.append(str(first) if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}")
    return ",".join(parts)


def _intervals(indexes: list[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for position, index in enumerate(indexes):
        if position + 1 == len(indexes) or indexes[position + 1] != index + 1:
            yield indexes[start], index
            start = position + 1
