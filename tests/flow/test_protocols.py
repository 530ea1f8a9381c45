"""What closures and systems of equations answer, in the shapes of their abstract bases."""

import numpy as np
import pytest
from settings import build

import overlaps as ov
from overlaps.activations.bound import Bound
from overlaps.flow.differences import DifferenceSystem
from overlaps.flow.differential_equation import DifferentialEquation
from overlaps.flow.mixed import MixedSystem, is_mixed
from overlaps.flow.system import System
from overlaps.models.start import checked_start

SETTINGS = [
    *((), ("kinked",), ("classes",), ("ratios",), ("Mixed",), ("heads",)),
    *(pytest.param(x, marks=pytest.mark.slow) for x in (("rule",), ("tokens_by_block", "several"))),  # they compile
]


def system_of(names):
    if names == ("differences",):
        model = ov.committee_machine(2, 2, eta=0.5)
        near = ov.State.from_overlaps(model, Q=np.eye(2), R=[[0.98, 0.02], [0.0, 0.97]], T=np.eye(2))
        return DifferenceSystem(model, near)
    model, start, *_ = build(*names)
    return MixedSystem(model, model.enter(start)) if is_mixed(model) else System(model, checked_start(model, start))


@pytest.mark.parametrize("names", [*SETTINGS, ("differences",)], ids=lambda x: "+".join(x) or "plain")
def test_a_system_answers_in_the_shapes_of_its_protocol(names):
    system = system_of(names)
    y, (L, K, M) = system.pack(system.start), system.shape
    n, G = y.size, system.groups
    assert isinstance(system, DifferentialEquation) and np.isfinite(system.close(y))
    assert system.A.shape == system.C.shape == (G * K, K) and system.B.shape == (G * K, M)
    assert system.rhs(system.start.alpha, y).shape == np.broadcast_to(system.tolerance_fractions, n).shape == (n,)
    q, r, _ = system.unpack(np.stack([y, y]))
    assert q.shape == (2, L, K, K) and r.shape == (2, L, K, M)
    assert (
        np.isfinite(system.change_of_eps_g(1e-9 * y)) and 0 < system.tightening(y) <= 1 and np.all(system.unit(y) > 0)
    )
    for name in ("kernel", "error_size", "explicit", "polynomial", "psd", "refusal", "duplicate_units", "source"):
        assert hasattr(system, name)


@pytest.mark.parametrize("names", SETTINGS, ids=lambda x: "+".join(x) or "plain")
def test_a_closure_answers_in_the_shapes_of_its_protocol(names):
    system = system_of(names)
    closure, S, w = system.closure, system.S, system.w
    closure.check(S, w)
    A, B, C, dv = (np.empty_like(x) for x in (system.A, system.B, system.C, system.dv))
    eps_g = closure(S, w, A, B, C, dv)
    assert isinstance(closure, Bound) and closure.compiled_parameters().ndim == 1
    assert closure.error_at(S, w) == pytest.approx(eps_g, rel=1e-12)
    assert np.all(np.isfinite(np.concatenate([x.ravel() for x in (A, B, C, dv)])))
    assert (
        closure.error_size(S, w) >= 0 and closure.gradient_rate > 0 and isinstance(closure.no_jacobian_reason(S), str)
    )
