"""A running Gatepost: its data folder, first start, certificate and sockets, and guard and abby in one event loop."""
