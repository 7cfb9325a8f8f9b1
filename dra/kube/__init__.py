"""Access to an API server: transport, client, reflector, leader election, events.

These modules only perform I/O: decisions about claims are in dra.engine. Each module separates its arithmetic (token
bucket, store, lease rules, event series) from its waiting, so that tests and the simulation run it in virtual time.
"""
