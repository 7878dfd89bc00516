"""Learns which affinity suits a program: selects counters, turns behaviour into actions, and actions into rules.

The steps are those of AutoFinity (Moore and Childers, 2012). :mod:`pinfold.learn.cfs` selects the relevant counters.
:mod:`pinfold.learn.action_table` has the best hint for each behaviour. :mod:`pinfold.learn.ripper` learns rules from
it. :mod:`pinfold.learn.rule_policy` writes them as the policy that ``pinfold`` evaluates.
:mod:`pinfold.learn.hint_policy` runs all these steps, and :mod:`pinfold.learn.judging` evaluates the policy. Only
functions whose names say so read and write files. Only :mod:`pinfold.learn.machines` runs a program, the binary.
"""
