"""The quarantine: holding mail, releasing it, cleaning up, and the raw bytes."""
