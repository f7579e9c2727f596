"""Feeds: lists that are filled and kept current from a URL, a file or standard input."""
