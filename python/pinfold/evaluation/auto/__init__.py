"""The sections on ``--policy auto`` and on the placement of parallel regions."""
