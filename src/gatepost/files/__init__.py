"""The content of files: what a file is, and what is inside it, within budgets. `walk.find_files` is the way in."""
