"""How the numbers on the pages come about: the names that their tags use (``tests/whole/test_docs.py``).

    <!-- check: eta_critical(2) == 4.614 -->

holds a number of the paragraph in which, or below which, it stands to what this file computes.  An expression may give
a list; ``+- 0.02`` or ``+- 30%`` is the tolerance, else half a unit of the last digit; ``check slow:`` is left to the
long suite.
"""

import numpy as np
import scipy.integrate
import scipy.optimize

import overlaps as ov
from overlaps.theory import late_time, linear, quadratic

HE3 = {3: 1.0}


def eta_critical(M):
    """Largest stable learning rate of perfect learning, erf, K = M, by eigenvalues of the flow."""
    model = ov.committee_machine(M, M, normalised=True, eta=1.0)
    return float(ov.critical_eta(model, ov.State.from_overlaps(model, Q=np.eye(M), R=np.eye(M), T=np.eye(M))))


def share_of_first_order(L, levels, end):
    """eps_1 / eps_g where eps_g has fallen to each level; gradient flow, beta = 1, K = M = 2."""
    spectrum = ov.power_law(beta=1.0, L=L)
    model = ov.committee_machine(2, 2, eta=0.1, normalised=True, gradient_flow=True, spectrum=spectrum)
    start = model.random_start(N=9000, rng=1, student_scale=0.01, teacher="ideal")
    traj = ov.solve(model, start, np.r_[0.0, np.geomspace(1e3, end, 120)], late=True)
    records = [int(np.argmax(traj.eps_g < level)) for level in levels]
    assert traj.eps_g[-1] < min(levels)
    states = [dict(zip("xy", late_time.differences(traj[i]), strict=True)) for i in records]
    return [
        late_time.first_order(0.0, spectrum, 2, eta=0.1, **state) / traj.eps_g[i]
        for i, state in zip(records, states, strict=True)
    ]


def percent_of_eps_g(method):
    """Error of eps_g that SciPy's solver leaves at rtol 1e-6, atol 1e-9, in a decay after a plateau."""
    model = ov.committee_machine(2, 2, eta=1.5)
    start = ov.State.from_overlaps(model, Q=0.5 * np.eye(2), R=[[0.1, 0], [0, 0.2]], T=np.eye(2))
    exact = ov.solve(model, start, [150.0], rtol=1e-12, late=True).eps_g[0]
    times, solver = [30.0, 60.0, 90.0, 120.0, 150.0], getattr(scipy.integrate, method)
    return 100 * abs(ov.solve(model, start, times, method=solver, rtol=1e-6, atol=1e-9).eps_g[-1] / exact - 1)


def error_of_bdf(beta, L, levels):
    """Relative error of eps_g where it has fallen to each level: linear unit, structured BDF, against the exact sum."""
    spectrum = ov.power_law(beta=beta, L=L)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, spectrum=spectrum)
    start = model.random_start(N=100 * L, rng=1)
    q, r, t = (x[:, 0, 0] for x in start.plain)
    alpha = np.r_[0.0, np.geomspace(1, 1e5, 400)]
    exact = linear.error(spectrum, 0.5, alpha, m0=q - 2 * r + t)
    found = ov.solve(model, start, alpha, method="structured").eps_g
    return [abs(found[i] / exact[i] - 1) for i in (int(np.argmax(exact < level)) for level in levels)]


def height_of_plateau():
    """eps_g where it falls most slowly, in the example of the first page."""
    model = ov.committee_machine(2, 2, eta=0.6)
    start = ov.State.from_overlaps(model, Q=np.diag([0.5, 0.4]), R=np.diag([0.02, 0.03]), T=np.eye(2))
    traj = ov.solve(model, start, np.linspace(5, 100, 200))
    return traj.eps_g[np.argmin(np.abs(np.diff(np.log(traj.eps_g))))]


def percent_of_bayes_limits(beta, k=10**6):
    """Distance of the limit and of the refined form from the equations, He_3, Delta = 1/2, k = d, alpha = 1."""
    law = ov.static.PowerLawLimit(beta=beta, noise=0.5**0.5, activation=HE3)
    eps = ov.static.HierarchicalTeacher(beta=beta, k=k, noise=0.5**0.5, activation=HE3).solve(nu=k).eps
    return [100 * abs(eps / form - 1) for form in (law.leading(k).eps, law.refined(k, k=k).eps)]


def bayes_thresholds():
    """Where equal readouts of He_3 are metastable, optimal, and no longer unlearned."""
    law = ov.static.EqualReadouts(noise=0.5**0.5, activation=HE3)
    return [law.informed_from, law.threshold, law.uninformed_until]


def end_of_wide_students(name):
    """eps_g of a quadratic network, K = 20, M = 3, at alpha = 1000 and the learning rate of this name."""
    model = ov.quadratic_network(20, 3, eta=getattr(quadratic, name)(20, 3))
    R = 0.01 * np.random.default_rng(5).standard_normal((20, 3))
    return ov.solve(model, ov.State.from_overlaps(model, Q=np.eye(20), R=R, T=np.eye(3)), [1000.0]).eps_g[-1]


def explicit_evaluations():
    """Evaluations of DOP853 in a unit of alpha after the first steps: erf, K = M = 2, beta = 1, L = 512, eta = 0.1."""
    model = ov.committee_machine(2, 2, eta=0.1, spectrum=ov.power_law(beta=1.0, L=512))
    start = model.random_start(N=512_000, rng=1)
    first, last = (ov.solve(model, start, [alpha], method="DOP853").nfev for alpha in (10.0, 40.0))
    return (last - first) / 30


def errors_on_flat_spectra(L):
    """Relative errors of eps_g at 1e-4, 1e-6, 1e-8: structured BDF at rtol 1e-8, a linear unit at beta = 0.1."""
    spectrum = ov.power_law(beta=0.1, L=L)
    model = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5, spectrum=spectrum)
    p = spectrum.p[:, None, None]
    start = ov.State.from_blocks(model, q=p, r=0 * p, t=p)

    def exact(log_alpha):  # eps_g = 1 at the start
        return float(linear.error(spectrum, 0.5, [np.exp(log_alpha)])[0] / linear.error(spectrum, 0.5, [0.0])[0])

    levels = (1e-4, 1e-6, 1e-8)
    times = [scipy.optimize.brentq(lambda x, level=level: exact(x) - level, -5.0, 40.0, rtol=1e-14) for level in levels]
    traj = ov.solve(model, start, np.exp(times), method="structured")
    return abs(traj.eps_g / [exact(x) for x in times] - 1)
