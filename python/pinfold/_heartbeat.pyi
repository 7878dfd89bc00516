def heartbeat() -> None:
    """Tell pinfold that one unit of work is done. Without pinfold this does nothing."""
