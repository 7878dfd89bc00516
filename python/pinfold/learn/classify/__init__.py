"""Learning how long a program takes in each placement strategy (the classifier of Denoyelle et al., 2019)."""
