"""An example of a Gatepost plug-in: letters about made-up parking fines."""
