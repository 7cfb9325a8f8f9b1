"""Programs that make what is deployed and released: the steps of a release as data (`plan`), and their modules."""
