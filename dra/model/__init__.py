"""Built-in Kubernetes objects, as far as dra-reserve reads them.

Frozen msgspec structs that hold only the fields somebody looks at: a watch of ten thousand pods must stay small. They
are therefore never written back; writes are patches (dra.engine.claims.patches), so that fields unknown to us survive.
"""
