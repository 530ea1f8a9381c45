"""Calls that cannot work: a type checker has to find each of them."""

import overlaps as ov

model = ov.committee_machine("two", 2, eta=0.5)  # K is an integer
ov.committee_machine(2, 2, eta="x")  # eta is a number
start = ov.committee_machine(2, 2, eta=0.5).random_start(N=100, seed=1)  # it is called rng
ov.solve(start, model, (0.0, 1.0))  # the model comes first
ov.solve(model, start, (0.0, 1.0), rtoll=1e-9)  # no such option
ov.simulate(model, N=100, alpha=[0, 1], rng=1, method="fast")  # no such simulator
print(ov.thoery)  # no such name: rooms that are loaded later hide no typing error
