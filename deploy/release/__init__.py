"""A release of dra-reserve: its steps as data (`plan`), and the modules that the steps run."""
