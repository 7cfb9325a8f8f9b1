"""Runs `dra.cli.reference.pages.main` as ``python -m dra.cli.reference``."""

import sys
from pathlib import Path

from dra.cli.reference.pages import main

sys.exit(main(sys.argv[1:], Path.cwd()))
