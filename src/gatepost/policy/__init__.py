"""Policy as data: what each finding weighs, and which files change it."""
