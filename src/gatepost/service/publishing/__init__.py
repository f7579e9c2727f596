"""Publishing: one checked version of the configuration for all nodes, and its rollout from node to node."""
