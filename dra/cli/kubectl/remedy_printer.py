"""Prints remedies as lines of text and as data: ``next`` is a command to paste, ``do`` a choice to weigh."""

from collections.abc import Iterator

from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice


def remedy_text(found: Remedy | None) -> str:
    """Return the command or the text of the choice; empty for None."""
    match found:
        case SafeCommand(command=command):
            return command
        case WeighedChoice(text=text):
            return text
        case _:
            return ""


def remedy_lines(found: Remedy | None) -> Iterator[str]:
    """Yield the line of a remedy, as the commands that explain print it."""
    if found is not None:
        yield f"  {'next' if isinstance(found, SafeCommand) else 'do'}".ljust(12) + remedy_text(found)


def remedy_data(found: Remedy | None) -> dict[str, str]:
    """Return a remedy for JSON: ``command`` or ``decision``."""
    return {} if found is None else {"command" if isinstance(found, SafeCommand) else "decision": remedy_text(found)}
