"""Gatepost: an e-mail security service."""

__version__ = "0.1.0"
