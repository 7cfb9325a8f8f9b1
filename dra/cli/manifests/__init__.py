"""The manifests, the chart and the examples that are part of the package, and the commands that print or write them."""
