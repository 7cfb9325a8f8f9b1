"""The life of Reservations: placed through a placeholder, told who uses them, ended in time, deleted a day later.

Everything is decided in `dra.engine.reservations.lifecycle`; here is what it is told, and what comes of its answers.
Where a reservation goes and who enters it is the extender's business (`controller.extender`).
"""
