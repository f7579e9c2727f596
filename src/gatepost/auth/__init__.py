"""Sender authentication: SPF, DKIM, DMARC, ARC, iprev. `authenticate` runs all of them; `results` holds the values."""
