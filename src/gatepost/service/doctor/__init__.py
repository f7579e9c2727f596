"""The checks of `gatepost doctor` and of the system page; each row says what to do if one fails."""
