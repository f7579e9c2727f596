"""Checks of what the text says and how it is written."""
