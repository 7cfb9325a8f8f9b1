"""A real Chromium: where it is, and why a test without it is left out."""

import shutil

import pytest

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def sync_playwright():
    """Return Playwright's entry, or skip the test with the reason."""
    if EXECUTABLE is None:
        pytest.skip("no Chromium on PATH; on Debian: apt-get install chromium")
    found = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make venv")
    return found.sync_playwright()
