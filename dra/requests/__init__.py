"""Requests to an API server that processes and commands share: the engine decides, the client sends."""
