"""The patch formats of the API; each makes a function of the old object, which `Registry.change` takes."""
