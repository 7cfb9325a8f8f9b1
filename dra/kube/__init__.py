"""Talking to an API server: transport, client, reflector, lease, events.

Shells only: what is decided about claims lies in dra.engine. Each module keeps its arithmetic (token bucket, store,
election, series of events) apart from its waiting, so that tests and the simulation run it in virtual time.
"""
