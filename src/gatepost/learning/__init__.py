"""Learning from reports: training of pools in sealed processes, the proof that a model may take part, looking back."""
