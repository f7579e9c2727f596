"""The milter source: mail servers ask for a verdict and keep the message (Sendmail's mail filter protocol)."""
