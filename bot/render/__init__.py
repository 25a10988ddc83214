"""What the bot shows, as Slack's blocks with a text beside them. Pure: the domain in, messages out."""
