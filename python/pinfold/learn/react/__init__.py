"""Learning how to configure parallel regions (the co-optimiser of Sánchez Barrera et al., ICS 2020)."""
