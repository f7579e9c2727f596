"""Answers to the questions of an analysis: DNS, lists, sender history, campaigns and antivirus."""
