"""What can be found: findings, their kinds and their strengths."""
