"""``dra-reserve demo`` shows the main use case in a minute on two local planes."""
