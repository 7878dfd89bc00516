"""Real applications: `make applications` installs and records them, and makes data sets from the recordings."""
