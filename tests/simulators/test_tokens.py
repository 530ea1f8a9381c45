"""SGD on samples of several inputs, direct and reduced, against the flow: means of runs in standard errors."""

import math

import numpy as np
import pytest
from helpers import few

import overlaps as ov

R = ov.rules
TWO = ov.Spectrum(s=[1.6, 0.4], p=[0.5, 0.5])
BLOCKS = dict(q=[[[0.5]], [[0.3]]], r=[[[0.1]], [[0.05]]], t=[[[0.5]], [[0.6]]])
HEADS = dict(
    q=[[[0.5, 0.1], [0.1, 0.4]], [[0.3, -0.1], [-0.1, 0.6]]], r=[[[0.1], [0.2]], [[0.05], [-0.1]]], t=[[[0.5]], [[0.6]]]
)
CLOSE = [[1.0, 0.6], [0.6, 1.0]]


def heads(lam, nu, xi, theta, S, F, G):
    """Two heads of attention, added with weights theta, learn one of a teacher; labels have noise."""
    T, out, y = lam.shape[0], np.zeros(2), 0.0
    p, total = np.zeros((T, 3)), np.zeros(3)
    for a in range(T):
        for k in range(3):
            p[a, k] = math.exp(lam[a, k] if k < 2 else nu[a, 0])
            total[k] += p[a, k]
    for a in range(T):
        for k in range(3):
            p[a, k] /= total[k]
        out[0] += p[a, 0] * lam[a, 0]
        out[1] += p[a, 1] * lam[a, 1]
        y += p[a, 2] * nu[a, 0]
    delta = theta[0] * out[0] + theta[1] * out[1] - y - 0.3 * xi
    for k in range(2):
        G[k] = -delta * out[k]
        for a in range(T):
            F[a, k] = -delta * theta[k] * p[a, k] * (1 + lam[a, k] - out[k])


def gaps(model, start, N, runs, method, rtol=1e-6, seed=4):
    """(Mean of runs - flow) in standard errors, of Q, R and, if they move, theta, at alpha = 1 and 3."""
    found = ov.simulate(model, N=N, alpha=[0.0, 1.0, 3.0], rng=seed, start=start, runs=runs, method=method)
    known, results = ov.solve(model, start, [0.0, 1.0, 3.0], rtol=rtol), []
    for name in ("Q", "R") + ("v",) * model.trains_v:
        x, y = getattr(found, name)[:, 1:], getattr(known, name)[1:]
        results.append((np.mean(x, axis=0) - y) / (np.std(x, axis=0, ddof=1) / np.sqrt(runs)))
    return np.max(np.abs(np.concatenate([x.ravel() for x in results])))


QUICK = {
    "episode with a penalty": (lambda: R.episode(4, 3, penalty=0.3, bonus=0.2), dict(eta=1.0, weight_decay=0.2)),
    "correlated views, batch": (lambda: R.pair(0.6), dict(eta=0.3, batch_size=3)),
    "patches, trained second layer": (lambda: R.patches("erf", 3, noise=0.3), dict(eta=0.8, eta_theta=0.4)),
}


@few("name", QUICK, quick=2)
@pytest.mark.parametrize("method, N, runs", [("direct", 300, 10), ("reduced", 4000, 12)])
def test_sgd_follows_the_flow(name, method, N, runs):
    make, options = QUICK[name]
    model = ov.learner(make(), spectrum=TWO, **options)
    assert gaps(model, ov.State.from_blocks(model, **BLOCKS), N, runs, method) < 3


def valued(lam, nu, xi, theta, S, F, G):
    """A head whose key is its value learns from one with a direction for each."""
    T, out, y, total, totals = lam.shape[0], 0.0, 0.0, 0.0, 0.0
    for a in range(T):
        total += math.exp(lam[a, 0])
        totals += math.exp(nu[a, 0])
        out += math.exp(lam[a, 0]) * lam[a, 0]
        y += math.exp(nu[a, 0]) * nu[a, 1]
    out, y = out / total, y / totals
    for a in range(T):
        F[a, 0] = -(out - y) * math.exp(lam[a, 0]) / total * (1 + lam[a, 0] - out)


THREE = 0.6 + 0.4 * np.eye(3)
SLOW = {  # two to six fields, on tensors and lattices; tokens with c_ab = 0.6
    "two heads, second layer": (
        lambda: ov.Rule(heads, K=2, M=1, tokens=2, token_covariance=CLOSE, noise=([1, -1], [0.5, 0.5])),
        dict(eta_theta=0.3, theta=[0.8, 0.5]), HEADS,
    ),
    "three tokens": (lambda: R.attention(3, THREE), {}, BLOCKS),
    "two tokens": (lambda: R.attention(2, CLOSE), {}, BLOCKS),
    "a covariance for each eigenspace": (lambda: R.attention(2, [CLOSE, [[1.0, -0.4], [-0.4, 1.0]]]), {}, BLOCKS),
    "a second teacher": (
        lambda: ov.Rule(valued, K=1, M=2, tokens=2, token_covariance=CLOSE), {},
        dict(q=BLOCKS["q"], r=[[[0.1, 0.2]], [[0.05, -0.1]]], t=[[[0.5, 0.1], [0.1, 0.4]], [[0.6, -0.1], [-0.1, 0.3]]]),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("method, N", [("direct", 1000), ("reduced", 4000)])
@pytest.mark.parametrize("name", SLOW)
def test_attention_by_sgd_follows_the_flow(name, method, N):
    """Means of 24 runs within three of their standard errors; corrections of order 1/N are a tenth of one."""
    make, options, blocks = SLOW[name]
    model = ov.learner(make(), eta=0.5, spectrum=TWO, **options)
    assert gaps(model, ov.State.from_blocks(model, **blocks), N, 24, method, rtol=1e-4, seed=7) < 3


def test_every_eigenspace_has_the_root_of_its_own_covariance():
    c = np.array([CLOSE, [[1.0, -0.4], [-0.4, 1.0]]])
    root = R.attention(2, c).token_root
    np.testing.assert_allclose(root @ root.mT, c, rtol=0, atol=1e-15)
    assert np.all(np.triu(root, 1) == 0)


@pytest.mark.slow
def test_tokens_that_learn_alone_are_a_batch_step_by_step():
    """The same inputs, the same weights: T tokens with F / T, and a batch of T."""

    def own(lam, nu, xi, theta, S, F, G):
        for a in range(lam.shape[0]):
            F[a, 0] = np.sign(nu[a, 0]) / 3 if lam[a, 0] * nu[a, 0] < 0 else 0.0

    def alone(lam, nu, xi, theta, S, F, G):
        F[0] = np.sign(nu[0]) if lam[0] * nu[0] < 0 else 0.0

    one, other = (
        ov.learner(ov.Rule(force, K=1, M=1, tokens=T), eta=0.9, batch_size=b, spectrum=TWO, weight_decay=0.3)
        for force, T, b in ((alone, 1, 6), (own, 3, 2))
    )
    start = ov.State.from_blocks(one, **BLOCKS)
    for method in ("direct", "reduced"):
        known, found = (
            ov.simulate(m, N=200, alpha=[0.0, 2.0], rng=1, start=start.on(m), runs=2, method=method)
            for m in (one, other)
        )
        np.testing.assert_allclose(found.Q, known.Q, rtol=1e-12)
        np.testing.assert_allclose(found.R, known.R, rtol=1e-12)
