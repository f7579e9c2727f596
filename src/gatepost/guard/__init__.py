"""guard, the core: it scans messages, answers the questions of their analyses, and keeps the quarantine."""
