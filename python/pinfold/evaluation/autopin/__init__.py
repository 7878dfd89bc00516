"""The sections on ``--policy autopin``, beside the figures of autopin's paper."""
