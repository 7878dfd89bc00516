"""The section on ``--policy hints``, beside the figures of AutoFinity's paper."""
