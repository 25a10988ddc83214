"""The conversation in Slack: what people write comes in here, and everything they read goes out here."""
