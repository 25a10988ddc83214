"""The cards and the watch: readings of every card, and the heartbeat that holds the reserved one."""
