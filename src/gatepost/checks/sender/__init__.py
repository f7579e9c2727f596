"""Checks of who the message says it is from: From, Sender, Reply-To, the envelope and the sending host."""
