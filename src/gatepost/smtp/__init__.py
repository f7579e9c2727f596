"""The SMTP gateway: intake from clients and relay to the next hop."""
