"""Averages of scalar functions over jointly Gaussian fields; nothing about networks.

``two_point`` is the table E[f h], E[f' h'], E[f'' h], E[f h''] of every pair of coded functions, ``shifted`` the same
for fields with means. ``orthants`` computes orthant probabilities of four fields. ``quadrature`` contains quadratures
for E[f(z)] of one variable, ``iterated`` those of a few. ``tables`` tabulates functions without a code. To add a
function with closed-form integrals, give it a code and its entries in ``two_point`` and ``shifted``.
"""
