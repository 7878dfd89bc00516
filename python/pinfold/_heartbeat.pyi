def heartbeat() -> None:
    """Report to pinfold that one unit of work is done. Without pinfold this does nothing."""
