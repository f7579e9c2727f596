"""The event stream for a SIEM: what is told of each event, and the outputs that get it."""
