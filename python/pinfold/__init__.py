"""Heartbeats for pinfold, which places the threads and the memory of running programs.

A program calls `heartbeat` after each step of its work. pinfold compares placements by the rate of these calls.

>>> import pinfold
>>> for step in range(3):
...     # the work of one step
...     pinfold.heartbeat()
"""

from pinfold._heartbeat import heartbeat

__all__ = ["heartbeat"]
