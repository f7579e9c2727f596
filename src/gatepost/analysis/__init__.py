"""What happens to a message: the stages of its analysis, its verdict and its report."""
