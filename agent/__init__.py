"""From a message to a plan, a question, a refusal or a command; from results to an answer."""
