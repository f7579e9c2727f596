"""What `gatepost doctor` and the system page look at: every part, and what to do where one fails."""
