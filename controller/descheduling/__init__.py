"""Descheduling: the loop that runs rounds of profiles and has their decisions carried out."""
