"""Results that several modules are tested on."""

import numpy as np
import pytest

import overlaps as ov


@pytest.fixture
def results():
    model = ov.committee_machine(
        2, 2, eta=1.0, eta_v=0.1, noise=0.1, weight_decay=(0.1, 0.0), spectrum=ov.power_law(beta=1.0, L=2)
    )
    sim = ov.simulate(model, N=100, alpha=np.linspace(0, 5, 6), rng=1, runs=3)
    return ov.solve(model, sim.start(0), (0, 5)), sim
