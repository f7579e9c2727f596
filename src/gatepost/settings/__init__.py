"""The two configuration files: every key, reading them, and their faults."""
