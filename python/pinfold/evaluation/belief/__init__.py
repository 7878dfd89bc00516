"""The section on beliefs: the share of the possible gain after each trial."""
