"""Tests of dra.kube: scripted answers in virtual time; real sockets only where HTTP itself is tested."""
