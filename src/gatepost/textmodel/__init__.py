"""A linear model of the words and marks of unwanted mail: features, scoring, training, and the model card's figures."""
