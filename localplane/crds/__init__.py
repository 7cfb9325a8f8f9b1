"""Custom kinds: what a CustomResourceDefinition may say, and what its objects may be."""
