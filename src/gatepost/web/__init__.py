"""The web interface: pages rendered on the server over the data of the APIs; `registry` lists all of them."""
