"""Our command, which waits a moment instead of minutes for pods that vanished, and for writes of its predecessor.

    python impatient.py controller --kubeconfig=...

A controller that starts takes a guard in the list for a pod that vanished. Where it is killed every other second, it
would never free a claim, and never be killed while it does. A descheduler without a lease begins once the writes of a
process before it have certainly arrived; a scenario whose proxy holds those writes knows better.
"""

from __future__ import annotations

from typing import Final

from controller.migration.application import Descheduler
from dra.cli.main import main
from dra.engine.claims.view import VanishedPod

PATIENCE: Final = 0.2

if __name__ == "__main__":
    VanishedPod.seconds_to_end = property(lambda _: PATIENCE)  # type: ignore[method-assign,assignment]
    defaults = Descheduler.__init__.__kwdefaults__
    assert defaults is not None
    defaults["previous_writes_seconds"] = PATIENCE
    main()
