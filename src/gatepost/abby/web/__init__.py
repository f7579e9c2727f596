"""The web interface: pages made on the server, over the same functions and data as the APIs; `registry` lists them."""
