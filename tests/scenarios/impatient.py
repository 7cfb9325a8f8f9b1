"""Our command, which waits for pods that vanished for a moment instead of minutes.

    python impatient.py controller --kubeconfig=...

A controller that starts takes a guard in the list for such a pod. Where it is killed every other second, it would never
free a claim, and never be killed while it does.
"""

from __future__ import annotations

from typing import Final

from dra.cli.main import main
from dra.engine.claims.view import VanishedPod

PATIENCE: Final = 0.2

if __name__ == "__main__":
    VanishedPod.seconds_to_end = property(lambda _: PATIENCE)  # type: ignore[method-assign,assignment]
    main()
