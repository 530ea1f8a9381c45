"""What tests of several modules share."""

import math

import numpy as np

import overlaps as ov


def agrees(values, theory, share=0.04):
    """Within four standard errors of the draws, or a share of the value: finite-size corrections are O(1/d)."""
    values = np.asarray(values)
    error = values.std(ddof=1) / math.sqrt(len(values))
    return abs(values.mean() - theory) < max(4 * error, share * abs(theory))


def library(model, Q, R, T):
    """(dQ, dR, risk) of the library's flow."""
    c = ov.closure(model, Q, R, T)
    half = c.A @ Q + c.B @ R.T
    return half + half.T + (0 if model.gradient_flow else c.C), c.A @ R + c.B @ T, 2 * c.eps_g
