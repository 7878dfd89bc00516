"""Tables that other tools or people have measured, as data sets of pinfold (``pinfold learn import``)."""
