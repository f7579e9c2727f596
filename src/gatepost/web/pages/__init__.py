"""The pages of the web interface, one subject a module."""
