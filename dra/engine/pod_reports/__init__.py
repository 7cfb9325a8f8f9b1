"""Annotations by which Koordinator's tools read what a pod was given: devices and CPUs of the pod's claims."""
