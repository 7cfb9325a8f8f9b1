"""``kubectl dra colocation``: profiles applied with the rights of an administrator, and explained for one pod."""
