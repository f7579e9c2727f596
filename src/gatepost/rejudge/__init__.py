"""Judging stored messages again: replay with the policy and lists of today, comparison, and dry runs of changes."""
