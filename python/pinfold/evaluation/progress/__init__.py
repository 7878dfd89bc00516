"""The rates of pinfold's metrics beside the figures of progress of real programs that are slowed."""
