"""What keeps a process running: sealing, periodic and background work, logs and metrics."""
