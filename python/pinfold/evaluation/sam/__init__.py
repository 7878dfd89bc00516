"""The sections on ``--policy sam``: the figures of SAM's paper, and fairness."""
