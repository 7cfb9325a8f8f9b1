"""The loop of Reservations: find a node through a placeholder, report owner pods, expire, delete a day later.

All decisions are made in `dra.engine.reservations.lifecycle`; this package feeds it with observations and applies its
actions. The extender (`controller.extender`) decides on which node a reservation is placed and which pods use it.
"""
