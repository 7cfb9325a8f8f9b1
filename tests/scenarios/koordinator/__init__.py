"""Scenarios of requests in Koordinator's form."""
