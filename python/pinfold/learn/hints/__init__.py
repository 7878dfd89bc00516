"""Learns which affinity hint suits a program: AutoFinity (Moore and Childers, 2012).

:mod:`~pinfold.learn.hints.cfs` selects the relevant counters. :mod:`~pinfold.learn.hints.action_table` has the best
hint for each behaviour. :mod:`~pinfold.learn.hints.ripper` learns rules from that table, and
:mod:`~pinfold.learn.hints.rule_file` writes them as the policy that ``pinfold`` evaluates.
:mod:`~pinfold.learn.hints.policy` runs these steps, and :mod:`~pinfold.learn.hints.judging` judges the policy. Only
functions whose names say so read and write files. Only :mod:`~pinfold.learn.hints.machines` runs a program, the binary.
"""
