"""The section on ``--policy react:tree``, with the study of Sánchez Barrera et al. (ICS 2020)."""
