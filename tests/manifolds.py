"""What tests of the hidden manifold share: a model of two students and two teachers, its weights, scalar maps."""

import numpy as np
from scipy.integrate import quad
from scipy.special import erf

import overlaps as ov
from overlaps.manifold.realisation import normalise_feature_rows

SECOND_LAYERS = {"v": [0.45, 0.55], "v_star": [0.9, 0.7]}


def manifold(activation=ov.erf, features="sign", ratio=0.5, **options):
    options = {"eta": 0.2, "eta_v": 0.2} | SECOND_LAYERS | options
    return ov.hidden_manifold(2, 2, activation=activation, features=features, ratio=ratio, **options)


class Replayed:
    """Latents known beforehand, the same for every caller."""

    def __init__(self, c):
        self.c = c

    def __call__(self, rng, n, D):
        """The first n of them."""
        return self.c[:n]


def two_by_two(features="sign", ratio=0.5, **options):
    return manifold(features=features, ratio=ratio, **options)


def limit_start(model, alignment=(0.1, 0.15)):
    P, T = [[1.0, 0.05], [0.05, 1.1]], [[1.05, 0.03], [0.03, 0.95]]
    return model.limit_start(P=P, T=T, alignment=np.diag(alignment))


def random_weights(rng, N, D, K=2, M=2):
    F = normalise_feature_rows(rng.standard_normal((N, D)))
    return {"W": rng.standard_normal((K, N)), "W_star": rng.standard_normal((M, D)), "F": F}


def largest_difference(a, b, until=np.inf):
    kept = a.alpha <= until
    return max(np.max(np.abs(getattr(a, x)[kept] - getattr(b, x)[kept])) for x in ("Q", "R", "v"))


FUNCTIONS = {
    "sign": np.sign,
    "erf": lambda u: erf(u / np.sqrt(2)),
    "relu": lambda u: np.maximum(u, 0.0),
    "linear": lambda u: 1.0 * u,
    "abs": np.abs,
}

NAMES = list(FUNCTIONS)


def average(h):
    """E[h(z)], z ~ N(0, 1), with the origin as an edge."""

    def integrand(z):
        return h(z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)

    return quad(integrand, -12, 0, epsabs=1e-13)[0] + quad(integrand, 0, 12, epsabs=1e-13)[0]
