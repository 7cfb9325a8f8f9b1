"""What the server knows of each kind: names, subresources, defaults, validation, columns."""
