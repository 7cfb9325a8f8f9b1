"""Tests of the controller: its parts on scripted answers in virtual time, its endpoints on real sockets."""
