"""The other face: a conversation in a terminal, and the processes of one machine started together."""
