"""The equations that a model shows: their text is evaluated and compared with the flow, term by term."""

import re

import numpy as np
import pytest
import settings
from scipy import integrate

import overlaps as ov
from overlaps.models.equations import TWO_POINT
from overlaps.models.features import FEATURES, supported

NUMBERS = "noise", "decay", "batches", "flow", "sphere", "drift", "trained_v"
OTHERS = "rule", "overlaps", "several", "blind", "kinked", "latents", "distilled"
FUNCTIONS = {r"\arcsin": np.arcsin, r"\arccos": np.arccos, r"\sqrt": np.sqrt}


class Formula:
    """The value of a line of LaTeX, in which products are written side by side."""

    def __init__(self, latex, values):
        self.values = {r"\pi": np.pi, **values}
        known = sorted([*self.values, *FUNCTIONS, r"\frac"], key=len, reverse=True)
        self.tokens = re.findall("|".join([*map(re.escape, known), r"\d+", r"\^2", r"\S"]), latex) + ["end"]
        self.value = self.sum()
        assert self.tokens == ["end"], self.tokens

    def sum(self):
        total = 0.0 if self.tokens[0] == "-" else self.product()
        while self.tokens[0] in "+-":
            sign = 1 if self.tokens.pop(0) == "+" else -1
            total = total + sign * self.product()
        return total

    def product(self):
        total = self.factor()
        while self.tokens[0] not in ("+", "-", ")", "]", "}", "end"):
            if self.tokens[0] == "/":
                self.tokens.pop(0)
                total = total / self.factor()
            else:
                other = self.factor()
                numbers = any(np.shape(x)[-2:] in ((), (1,), (1, 1)) for x in (total, other))
                total = total * other if numbers else total @ other
        return total

    def factor(self):
        token = self.tokens.pop(0)
        if token in "([{":
            value = self.sum()
            assert self.tokens.pop(0) in ")]}"
        elif token in FUNCTIONS:
            value = FUNCTIONS[token](self.factor())
        elif token == r"\frac":
            value = self.factor() / self.factor()
        else:
            value = float(token) if token.isdigit() else self.values[token]
        return value**2 if self.tokens[0] == "^2" and self.tokens.pop(0) else value


def per_block(x):
    return np.reshape(x, (-1, 1, 1))


def symbols(model, closure, q, r, tau, v):
    """Values of all symbols of the flow; those of blocks have the shapes (L, ...)."""
    Q, R = (per_block(model.spectrum.s) * q).sum(axis=0), r.sum(axis=0)
    norms, sl = np.einsum("lkk->k", q), model.spectrum.s
    noise = 0.0 if model.gradient_flow else (sl @ model.spectrum.p) * np.diag(closure.C) / (2 * model.batch_size)
    mu = (np.diag(closure.A @ Q) + np.diag(closure.B @ R.T) + noise) / norms
    dv = -closure.dv / (model.eta_v or 1)
    return {
        "A": closure.A, "A^T": closure.A.T, "B": closure.B, "B^T": closure.B.T, "C": closure.C,
        "Q": q, "R": r, "R^T": r.swapaxes(1, 2), "T": tau, "q^l": q, "r^l": r, "r^{lT}": r.swapaxes(1, 2),
        r"\tau^l": tau, "s_l": per_block(sl), "p_l": per_block(model.spectrum.p), r"diag(\mu)": np.diag(mu),
        r"\eta": model.eta, r"\kappa": model.weight_decay[0], r"\kappa_v": model.weight_decay[1],
        r"\delta": model.drift, "b": model.batch_size, r"\eta_v": model.eta_v, r"\eta_\theta": model.eta_v,
        "v": v, r"\theta": v, r"E[g(\lambda) \Delta]": dv, "-E[G]": dv,
    }  # fmt: skip


def velocity(model, start):
    """d(q, r, v)/dalpha by two short runs; the error of the extrapolation is of the second order in h."""
    h = 1e-4
    a, b = (ov.solve(model, start, [x], rtol=1e-12, atol=1e-15)[0] for x in (h, 2 * h))
    return [(4 * getattr(a, x) - getattr(b, x) - 3 * np.asarray(getattr(start, x))) / (2 * h) for x in ("q", "r", "v")]


def check(model, start):
    flow = model.equations().flow
    closure = ov.closure(model, start.Q, start.R, start.T, start.v)
    values = symbols(model, closure, start.q, start.r, start.tau, start.v)
    isotropic = "Q" in flow
    names = ("Q", "R") if isotropic else ("q^l", "r^l")
    for name, change in zip((*names, r"\theta" if model.rule else "v"), velocity(model, start), strict=True):
        shown = Formula(flow[name], values).value if name in flow else 0.0
        # truncation h^2 of the extrapolation times the third derivatives of these starts, rounding 1e-15/h
        np.testing.assert_allclose(
            np.broadcast_to(shown, change.shape), change, rtol=1e-5, atol=1e-6, err_msg=flow.get(name)
        )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("second", [*NUMBERS, *OTHERS, pytest.param("tokens", marks=pytest.mark.slow)])
def test_the_text_is_the_flow(second):
    """Every feature of a single task, alone and with every number: drift, noise, decay, batches, spheres, readouts."""
    for first in NUMBERS:
        if not supported(first, second):
            continue
        try:
            model, start, *_ = settings.build(first, second)
        except (ValueError, TypeError):
            continue  # no constructor takes the two
        check(model, start)


def test_a_pair_of_decays():
    model = ov.committee_machine(
        2, 2, eta=0.7, eta_v=0.4, weight_decay=(0.2, 0.6), spectrum=ov.power_law(beta=0.8, L=3)
    )
    check(model, model.random_start(N=300, rng=1))


@pytest.mark.parametrize("name", ["Mixed", "heads"])
def test_tasks_mixed(name):
    """The mean of the tasks' equations, each evaluated at its own covariances."""
    model, start, *_ = settings.build(name, "trained_v")
    start = model.enter(start)
    flow, ratios, shares = model.equations().flow, model.ratios, model.at(0.0)
    total = {x: 0.0 for x in flow}
    for i, task in enumerate(model.models):
        s, ratio, v = per_block(task.spectrum.s), per_block(ratios[i]), model.of(i, start.v)
        T = (start.tau * ratio**2 / np.where(s > 0, s, np.inf)).sum(axis=0)
        closure = ov.closure(task, (s * start.q).sum(axis=0), (start.r * ratio).sum(axis=0), T, v)
        values = symbols(task, closure, start.q, start.r, start.tau, v)
        values |= {x[0] + "_i" + x[1:]: values[x] for x in ("A", "A^T", "B", "B^T", "C", r"E[g(\lambda) \Delta]")}
        values |= {"s_l": per_block(model.spectrum.s), r"\rho_{il}": ratio, r"\pi_i": shares[i], "v_i": v}
        for x in flow:  # every head moves by the samples of its own task
            change = Formula(flow[x].replace(r"\sum_i ", ""), values).value
            total[x] = total[x] + change if x != "v_i" else total[x] + np.outer(np.arange(len(shares)) == i, change)
    readout = "v_i" if "v_i" in flow else "v"
    for name, change in zip(("q^l", "r^l", readout), velocity(model, start), strict=True):
        np.testing.assert_allclose(total[name], change, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["low_rank", "pull"])
def test_trained_directions(name):
    """Written by their amplitudes or by other numbers, pulled or not, with the closure of the adapted network."""
    model, start, *_ = settings.build(name, "several")
    base, a, shown = model.model, start.v, model.equations()
    K, P = base.K, model.places(a)
    S = P @ start.S @ P.T
    closure = ov.closure(base, S[:K, :K], S[:K, K:], S[K:, K:])
    write = a.T if model.write is None else model.write
    values = {
        "A": closure.A, "[A,B]": np.hstack([closure.A, closure.B]), "C": closure.C, "a": a, "a^T": a.T,
        r"\text{write}": write, r"\text{write}^T": write.T,
    }  # fmt: skip
    lines = [line.split(" = ") for line in shown.definitions[1].replace("[A, B]", "[A,B]").split(r", \qquad ")]
    values |= {letter: Formula(terms, values).value for letter, terms in lines}
    q, r = start.q, start.r
    values |= {
        "A_u^T": values["A_u"].T,
        "B_u^T": values["B_u"].T,
        "q^l": q,
        "r^l": r,
        "r^{lT}": r.mT,
        r"\tau^l": start.tau,
    }
    values |= {"s_l": per_block(base.spectrum.s), "p_l": per_block(base.spectrum.p)}
    if name == "pull":
        D, E = np.hsplit(model.pulled(start.alpha), [model.rank])
        values |= {"D": D, "D^T": D.T, "E": E, "E^T": E.T}
    for letter, change in zip(("q^l", "r^l"), velocity(model, start), strict=False):
        np.testing.assert_allclose(Formula(shown.flow[letter], values).value, change, rtol=1e-5, atol=1e-6)
    assert ("D" in shown.flow["q^l"]) == (r"[D, E] = \text{pull}(\alpha)" in shown.definitions) == (name == "pull")


@pytest.mark.parametrize("name", TWO_POINT)
def test_closed_forms(name):
    """E[g g], E[g' g'] and E[g'' g] of two fields against a polar integral, kink by kink."""
    g, (a, b, c) = getattr(ov, name), (0.7, 0.9, 0.35)
    S = np.array([[a, c], [c, b]])
    root = np.linalg.cholesky(S)

    def mean(f):
        def radial(angle):
            x, y = root @ [np.cos(angle), np.sin(angle)]
            return integrate.quad(lambda t: f(t * x, t * y) * t * np.exp(-t * t / 2), 0, 12, epsabs=1e-12)[0] / (
                2 * np.pi
            )

        kinks = np.sort(np.mod([np.pi / 2, -np.pi / 2, *np.arctan2(-root[1, 0], root[1, 1]) + [0, np.pi]], 2 * np.pi))
        edges = [0, *kinks, 2 * np.pi]
        return sum(
            integrate.quad(radial, lo, hi, epsabs=1e-11)[0] for lo, hi in zip(edges[:-1], edges[1:], strict=True)
        )

    values = {"S_{ii}": a, "S_{jj}": b, "S_{ij}": c, r"\rho_{ij}": c / np.sqrt(a * b)}
    shown = [Formula(form.split(", ")[0], values).value for form in TWO_POINT[name]]
    assert shown[0] == pytest.approx(mean(lambda x, y: g(x) * g(y)), abs=1e-9)
    assert shown[1] == pytest.approx(mean(lambda x, y: g.dg(x) * g.dg(y)), abs=1e-9)
    # by Stein's lemma E[x g'(x) g(y)] = S_ii E[g'' g] + S_ij E[g' g']
    stein = (mean(lambda x, y: x * g.dg(x) * g(y)) - shown[1] * c) / a
    assert shown[2] == pytest.approx(stein, abs=1e-8)


def test_every_feature_is_visible():
    """A feature of the model changes the text, or is one of the data and options that no symbol shows."""
    silent = {"late", "sums", "stop", "certify", "step", "overlaps", "blind", "ratios", "distilled", "kinked"}
    plain = repr(settings.build("late")[0].equations())
    for name in FEATURES:
        model, *_ = settings.build(name)
        if not name.endswith("(alpha)") and name not in silent and name != "Stages":
            assert repr(model.equations()) != plain, name
    stages = settings.build("Stages")[0]
    assert [repr(x) for x in stages.equations()] == [repr(x.equations()) for x in stages.models]


def test_both_forms():
    model = ov.committee_machine(
        2, 3, activation="relu", eta=0.5, batch_size=4, noise=0.1, spectrum=ov.power_law(beta=1.0, L=4)
    )
    equations = model.equations()
    assert str(equations).splitlines()[:2] == [
        "dr^l/dα = s_l A r^l + B τ^l", "dq^l/dα = s_l (A q^l + q^l A^T) + B r^lT + r^l B^T + s_l p_l C/b",
    ]  # fmt: skip
    assert str(equations).splitlines()[-1] == "α = steps/N, K = 2, M = 3, L = 4, η = 0.5, σ = 0.1, b = 4"
    assert not set("\\{}&") & set(str(equations))
    latex = equations._repr_latex_()
    assert latex.startswith("$$\\begin{aligned}\n\\frac{dr^l}{d\\alpha} &= s_l A r^l") and latex.endswith(
        "\\end{aligned}$$"
    )
    assert latex.count("{") == latex.count("}") and all(row.count("&") == 1 for row in latex.splitlines()[1:-1])
    rule = ov.learner(ov.rules.least_squares(), eta=1.0).equations()
    assert "of least_squares(0)" in str(rule) and r"least\_squares" in rule.latex
