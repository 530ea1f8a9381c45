"""Averages of scalar functions over jointly Gaussian fields; nothing about networks.

``two_point`` is the table E[f h], E[f' h'], E[f'' h], E[f h''] of every pair of coded functions; ``orthants`` has the
probabilities of orthants up to four fields; ``rules`` has all one-dimensional rules for E[f(z)]. A new function with
closed-form integrals gets a code and its rows of the table here.
"""
