"""Protocols of other filters, so that their clients can ask Gatepost: that of SpamAssassin's spamd, those of rspamd."""
