"""Programs for people who work on Gatepost; they are not part of what is installed."""
