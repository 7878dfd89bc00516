"""The section on ``--policy react``, with the study of Sánchez Barrera et al. (ICS 2020)."""
