"""The configuration of the descheduler: our own, Koordinator's DeschedulerConfiguration, the community's policy."""
