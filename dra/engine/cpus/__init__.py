"""CPUs of one machine: where they are, which ones a request gets, what is left for everybody else. Pure."""
