"""The section on ``--policy hints:rules``, beside the figures of AutoFinity's paper."""
