"""The Common Expression Language: device selectors, rules over objects, and the functions that Kubernetes adds."""
