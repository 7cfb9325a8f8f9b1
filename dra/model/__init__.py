"""Built-in Kubernetes objects, as far as dra-reserve reads them.

Frozen msgspec structs that hold only the fields that some code reads: a watch of ten thousand pods must stay small.
They are therefore never written back; writes are patches (dra.engine.claims.patches), so that unknown fields survive.
"""
