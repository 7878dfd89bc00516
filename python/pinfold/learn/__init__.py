"""Learning which affinity suits a program: counters are selected, behaviour becomes actions, actions become rules.

The steps are those of AutoFinity (Moore and Childers, 2012): :mod:`pinfold.learn.cfs` picks the counters that matter,
:mod:`pinfold.learn.action_table` says which hint was best for each behaviour, :mod:`pinfold.learn.ripper` makes rules
of that, and :mod:`pinfold.learn.rule_policy` writes them as the policy that ``pinfold`` evaluates;
:mod:`pinfold.learn.hint_policy` does all of it, and :mod:`pinfold.learn.judging` judges it. Files are read and written
where a function's name says so; :mod:`pinfold.learn.machines` alone runs a program, the binary.
"""
