"""The sections that judge the simulator: by published figures, by this machine and by its own rules."""
