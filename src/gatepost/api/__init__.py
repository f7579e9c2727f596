"""What goes over the wire: types, error codes, times and ids that the services, the client and the docs share."""
