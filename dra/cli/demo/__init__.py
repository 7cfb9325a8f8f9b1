"""``dra-reserve demo``: the main job, shown in a minute on two local planes."""
