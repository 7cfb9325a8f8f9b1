"""Colocation on the node: samples and reports what the node uses, and holds batch pods back.

Opt-in (``--colocation``). `node_agent` composes everything; `node_state` is what its parts see.
"""
