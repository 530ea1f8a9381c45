"""One problem in two descriptions has one flow: blocks, units, classes and units of measurement are matters of naming.

Every description is turned into another one, and velocities and errors are compared to rounding. All numbers are drawn:
a 1, a 0 or two equal entries would hide a factor.
"""

import numpy as np
import pytest
from helpers import few

import overlaps as ov
from overlaps.flow.system import System

LEAKY = ov.leaky_relu(0.3)
FUNCTIONS = {"erf": ov.erf, "quadratic": ov.quadratic, "linear": ov.linear, "relu": ov.relu, "leaky": LEAKY}
PAIRS = [("erf", "relu"), ("quadratic", "erf"), ("linear", "linear"), ("relu", "linear"), ("leaky", "quadratic")]
BLOCKS = ["s", "p", "q", "r", "t", "m", "n", "gram"]  # one entry for each eigenspace


def draw(seed, pair, L=2, C=None):
    """A model and its start in plain numbers; C classes, or inputs without a mean."""
    rng = np.random.default_rng(seed)
    K, M = 2, 2
    X = rng.normal(size=(L, K + M + (C or 0), 6)) / np.sqrt(6 * L)
    joint = X @ X.swapaxes(1, 2)
    teachers, means = slice(K, K + M), slice(K + M, None)
    return {
        "student": pair[0], "teacher": pair[1], "classes": C is not None,
        "s": rng.uniform(0.3, 2, L), "p": rng.dirichlet(np.full(L, 3.0)), "v": rng.normal(size=K),
        "v_star": rng.normal(size=M), "q": joint[:, :K, :K], "r": joint[:, :K, teachers],
        "t": joint[:, teachers, teachers], "m": joint[:, :K, means], "n": joint[:, teachers, means],
        "gram": joint[:, means, means], "ratios": rng.uniform(0.4, 1.6, (C or 0, L)),
        "weights": rng.dirichlet(np.full(C or 1, 3.0)), "labels": rng.normal(size=C or 0), "eta": 0.37, "eta_v": 0.23,
        "noise": 0.41, "decay": np.array([0.13, 0.07]), "batch": 3,
    }  # fmt: skip


def made(x):
    """(model, start) of a description."""
    learning = {
        "activation": FUNCTIONS[x["student"]], "teacher_activation": FUNCTIONS[x["teacher"]], "v": x["v"],
        "v_star": x["v_star"], "spectrum": ov.Spectrum(x["s"], x["p"]), "eta": x["eta"], "eta_v": x["eta_v"],
        "noise": x["noise"], "weight_decay": tuple(x["decay"]), "batch_size": x["batch"],
    }  # fmt: skip
    K, M = len(x["v"]), len(x["v_star"])
    plain = {name: x[name] for name in ("q", "r", "t")}
    if not x["classes"]:
        model = ov.committee_machine(K, M, **learning)
        return model, ov.State.from_blocks(model, **plain)
    classes = {name: x[name] for name in ("gram", "weights", "labels", "ratios")}
    model = ov.gaussian_mixture(K, M, **classes, **learning)
    return model, ov.State.from_blocks(model, **plain, m=x["m"], n=x["n"])


def velocities(x):
    """What changes, in plain overlaps, and the error: {"q", "r", "m", "v", "eps_g"}."""
    model, start = made(x)
    system = System(model, start)
    q, joint, v = system.packing.unpack(system.rhs(0.0, system.pack(start)))
    r, m = np.split(joint, [model.M], axis=-1)
    s = model.spectrum.s[:, None, None]
    eps_g = ov.solve(model, start, [0.0]).eps_g[0]
    return {"q": q, "r": np.divide(r, s, out=np.zeros_like(r), where=s > 0), "m": m, "v": v, "eps_g": eps_g}


def same(x, y, back, rate=1.0, tolerance=1e-10):
    """Whether the flow of y, brought ``back`` to the names of x, is that of x at ``rate`` times its pace."""
    expected, found = velocities(x), back(velocities(y))
    assert found["eps_g"] == pytest.approx(expected.pop("eps_g"), rel=tolerance)
    for name, value in expected.items():
        # rounding of sums of about ten numbers of order one
        size = max(1.0, np.abs(value).max(initial=0.0))
        np.testing.assert_allclose(found[name], rate * value, rtol=0, atol=tolerance * size)


CASES = [(pair, L, C) for pair in PAIRS for L, C in ((1, None), (3, None), (1, 2), (3, 2))]
every = pytest.mark.parametrize(
    ("pair", "L", "C"), CASES, ids=[f"{a}-{b}-L{L}-{'C2' if C else 'centred'}" for (a, b), L, C in CASES]
)


@every
def test_blocks_may_be_split(pair, L, C):
    x, share = draw(1, pair, L, C), 0.3
    y = x | {name: np.concatenate([share * x[name][:1], (1 - share) * x[name][:1], x[name][1:]]) for name in BLOCKS}
    y["s"] = np.append(x["s"][0], x["s"])
    y["ratios"] = np.concatenate([x["ratios"][:, :1], x["ratios"]], axis=1)

    def merged(flow):
        return flow | {name: np.concatenate([[z[0] + z[1]], z[2:]]) for name in "qrm" for z in [flow[name]]}

    same(x, y, merged)


@every
def test_blocks_units_and_classes_may_be_numbered_in_any_order(pair, L, C):
    x = draw(2, pair, L, C)
    y = x | {name: x[name][::-1] for name in [*BLOCKS, "v", "v_star", "weights", "labels"]}
    y |= {name: y[name][:, ::-1, ::-1] for name in ("q", "r", "t", "m", "n", "gram")}
    y["ratios"] = x["ratios"][::-1, ::-1]

    def back(flow):
        return {"v": flow["v"][::-1], "eps_g": flow["eps_g"]} | {name: flow[name][::-1, ::-1, ::-1] for name in "qrm"}

    same(x, y, back)


@every
def test_larger_inputs_are_smaller_weights(pair, L, C):
    """Inputs sqrt(a) x with weights w / sqrt(a), at eta / a: the same fields and the same steps of them."""
    x, a = draw(3, pair, L, C), 2.3
    y = x | {"s": a * x["s"], "eta": x["eta"] / a, "decay": x["decay"] * [a, 1], "gram": a * x["gram"]}
    y |= {name: x[name] / a for name in "qrt"}
    same(x, y, lambda flow: flow | {"q": a * flow["q"], "r": a * flow["r"]})


@every
def test_dimensions_without_variance_change_nothing(pair, L, C):
    """N -> c N by coordinates that do not vary, whatever the overlaps there: time is measured in steps / N.

    The class means there, which students do not see at the start, are all that such coordinates can show.
    """
    x, c = draw(4, pair, L, C), 1.7
    y = x | {"eta": c * x["eta"], "eta_v": c * x["eta_v"]}
    y |= {name: np.insert(x[name], 1, 0.6 * x[name][0], axis=0) for name in BLOCKS}
    y["s"], y["p"] = np.insert(x["s"], 1, 0.0), np.insert(x["p"] / c, 1, 1 - 1 / c)
    for name in ("m", "n", "gram"):
        y[name][1] = 0
    y["ratios"] = np.insert(x["ratios"], 1, 2.9, axis=1)
    same(x, y, lambda flow: flow | {name: np.delete(flow[name], 1, axis=0) for name in "qrm"}, rate=c)


@pytest.mark.parametrize("pair", PAIRS)
@few("L", [1, 3], quick=1)
def test_what_has_no_variance_may_have_any_ratio(pair, L):
    """The last block varies less and less, down to nothing: its means are seen, its ratios are not."""
    x = draw(5, pair, L + 1, 2)
    for small in (0.0, 1e-12, 1e-10):
        x["s"][-1] = small
        other = x | {"ratios": x["ratios"] * np.append(np.ones(L), 1.9)}
        alike = x | {"ratios": np.concatenate([x["ratios"][:, :-1], x["ratios"][:, :1]], axis=1)}
        for y in (other, alike):
            same(x, y, lambda flow: flow, tolerance=1e-8)  # what a variance of 1e-10 shows
        # errors know the sum of the means over blocks
        n, wide = x["n"].copy(), x["gram"] + 9 * np.eye(2)
        n[0], n[-1] = n[0] + n[-1], 0
        one, other = (velocities(x | {"n": means, "gram": wide})["eps_g"] for means in (x["n"], n))
        assert other == pytest.approx(one, rel=1e-12)


@every
def test_a_teacher_unit_may_be_split(pair, L, C):
    """v* = v* share + v* (1 - share) with the same weights: parallel fields."""
    x, share, rows = draw(6, pair, L, C), 0.3, [0, 0, 1]
    y = x | {"v_star": x["v_star"][rows] * [share, 1 - share, 1], "r": x["r"][:, :, rows], "n": x["n"][:, rows]}
    y["t"] = x["t"][:, rows][:, :, rows]
    same(x, y, lambda flow: flow | {"r": flow["r"][:, :, 1:]}, tolerance=1e-7)  # cubature of coplanar fields


@pytest.mark.parametrize("pair", PAIRS)
def test_a_class_may_be_split(pair):
    x, share, rows = draw(7, pair, 2, 2), 0.3, [0, 0, 1]
    y = x | {"weights": x["weights"][rows] * [share, 1 - share, 1], "labels": x["labels"][rows]}
    y |= {"ratios": x["ratios"][rows], "m": x["m"][:, :, rows], "n": x["n"][:, :, rows]}
    y["gram"] = x["gram"][:, rows][:, :, rows]
    same(x, y, lambda flow: flow | {"m": flow["m"][:, :, 1:]})


@pytest.mark.parametrize("pair", PAIRS)
def test_variances_belong_to_the_spectrum_or_to_the_ratios(pair):
    """s_l -> a_l s_l and rho_cl -> rho_cl / a_l with the same overlaps."""
    x, a = draw(8, pair, 3, 2), np.array([0.6, 1.9, 1.3])
    y = x | {"s": a * x["s"], "ratios": x["ratios"] / a}
    same(x, y, lambda flow: flow)


@pytest.mark.parametrize("means", [False, True], ids=["centred", "means"])
@pytest.mark.parametrize("spread", [1.0, 0.3], ids=["loose", "tight"])
@pytest.mark.parametrize("name", [*FUNCTIONS, "absolute"])
def test_a_teacher_is_a_student_of_negative_readout(name, spread, means):
    """Two teachers become two more students, however the fields are correlated: what the first two feel is the same."""
    rng, n, m = np.random.default_rng(31), slice(2), slice(2, None)
    X = np.array([0.9, 0.8, -1.1, 0.7])[:, None] * (rng.normal(size=4) + spread * rng.normal(size=(4, 4)))
    S, v, v_star, mu = X @ X.T / 4, np.array([0.6, -0.9]), np.array([0.8, 0.45]), rng.normal(size=5)
    learning = {"activation": FUNCTIONS.get(name, ov.absolute), "eta": 0.37, "eta_v": 0.23, "noise": 0.41}
    taught = ov.committee_machine(2, 2, v=v, v_star=v_star, **learning)
    alone = ov.committee_machine(4, 1, v=np.append(v, -v_star), v_star=[0.0], **learning)
    classes = [{"means": mu[:k], "label": 0.3} if means else {} for k in (4, 5)]
    x = ov.closure(taught, S[n, n], S[n, m], S[m, m], **classes[0])
    y = ov.closure(alone, S, np.zeros((4, 1)), [[1.3]], **classes[1])
    expected = [x.A, x.B, x.C, x.dv, x.eps_g, *([x.f] if means else [])]
    found = [y.A[n, n], y.A[n, m], y.C[n, n], y.dv[n], y.eps_g, *([y.f[n]] if means else [])]
    for a, b in zip(expected, found, strict=True):  # 1e-10: the quadrature of C of kinked units with means
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-10 * max(1.0, np.abs(a).max()))
