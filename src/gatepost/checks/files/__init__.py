"""Checks of attachments and of what is inside of them."""
