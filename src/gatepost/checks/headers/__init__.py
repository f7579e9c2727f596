"""Checks of how the message was written: its header fields, its subject and its MIME structure."""
