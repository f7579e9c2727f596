"""Checks of where links lead and what they show."""
