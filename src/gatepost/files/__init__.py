"""The content of files: what a file is, and what is inside it, within budgets. `walk.unfold` is the way in."""
