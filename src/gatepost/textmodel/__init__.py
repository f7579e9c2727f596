"""A linear model of the words and marks of unwanted mail: features, scoring, training, and the figures of its model card."""
