"""``python -m tests.commits FILE``: check the message of a commit, as the hook commit-msg does (CONTRIBUTING.md)."""

import re
import sys
from pathlib import Path

SUBJECT = re.compile(r"[a-z0-9./_-]+: [a-z`'\"].*[^.\s]")
SUBJECT_MAX = 72
EXEMPT = ("Merge ", "Revert ", "fixup! ", "squash! ")


def faults(message: str) -> list[str]:
    """Return what is wrong with a commit message; empty if nothing is."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject, *rest = lines or [""]
    if subject.startswith(EXEMPT):
        return []
    found = []
    if not SUBJECT.fullmatch(subject):
        found.append(f"subject {subject!r}: write `scope: imperative`, in lower case and without a full stop")
    if len(subject) > SUBJECT_MAX:
        found.append(f"subject {subject!r}: {len(subject)} characters; {SUBJECT_MAX} at most")
    if not any(line.strip() for line in rest):
        found.append("the body is missing: write why the change is made")
    elif rest[0].strip():
        found.append("the line after the subject is not empty")
    return found


def main() -> None:
    """Check the file that git passes to the hook."""
    found = faults(Path(sys.argv[1]).read_text())
    for fault in found:
        sys.stderr.write(f"commit message: {fault}\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
