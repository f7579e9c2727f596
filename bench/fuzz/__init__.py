"""Fuzzing of every reader of hostile bytes: one table of targets, one set of checks, guided by coverage."""
