"""The section on ``--policy classify``, with the study of Denoyelle et al. (ICPP 2019)."""
