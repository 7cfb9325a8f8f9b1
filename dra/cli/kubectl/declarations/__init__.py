"""The options and the help of the commands; the modules that do the work are imported on use, so help is quick."""
