"""The section on ``--policy classify:forest``, with the study of Denoyelle et al. (ICPP 2019)."""
