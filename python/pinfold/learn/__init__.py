"""Learns from data sets of sweeps where the threads and pages of a program belong.

One package has one method: :mod:`pinfold.learn.hints` (AutoFinity), :mod:`pinfold.learn.classify` (the classifier of
Denoyelle et al.) and :mod:`pinfold.learn.react` (the co-optimiser of Sánchez Barrera et al.). They share the modules
beside them and import nothing of each other. :mod:`pinfold.learn.command` is the command line.
"""
