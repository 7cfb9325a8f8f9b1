"""The plugins: functions of a snapshot and arguments that yield candidates, each with its reason."""
