"""Opens the page in the user's browser without showing the key of the session to other users of the machine."""

import html
import webbrowser
from pathlib import Path


def open_browser(url: str, folder: Path) -> bool:
    """Open a URL and return whether a browser was started.

    The arguments of a process are visible to everybody on the machine, so the browser gets the name of a file in a
    folder that only this user can read, and the file sends it to the page.
    """
    file = folder / "open.html"
    file.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(url)}">\n', encoding="utf-8"
    )
    return webbrowser.open(file.as_uri())
