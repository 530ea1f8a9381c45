"""The public rules, and how a saved rule is made again."""

from .adaptive_rates import adagrad_norm, line_search
from .committees import dropout, logistic_committee, offsets, sign_committee
from .feedback import feedback_alignment, node_perturbation
from .perceptrons import (
    adatron,
    hebb,
    hinge,
    least_squares,
    logistic,
    optimal,
    perceptron,
    residual,
    residual_of_recipe,
)
from .rule import MAKERS, again
from .tokens import attention, episode, pair, patches

__all__ = [
    "adagrad_norm", "adatron", "attention", "dropout", "episode", "feedback_alignment", "hebb", "hinge",
    "least_squares", "line_search", "logistic", "logistic_committee", "node_perturbation", "offsets", "optimal", "pair",
    "patches", "perceptron", "residual", "sign_committee",
]  # fmt: skip

MAKERS.update({name: globals()[name] for name in __all__} | {
    "residual": lambda law, args, kwds, clip: residual_of_recipe(law, tuple(args), tuple(map(tuple, kwds)), clip),
    "adagrad_norm": lambda recipe, b0, mean: adagrad_norm(again(*recipe), b0, mean_eigenvalue=mean),
})  # fmt: skip
for _make in (feedback_alignment, node_perturbation):  # their recipes contain the name of the activation
    MAKERS[_make.__name__] = lambda v, v_star, name, noise, make=_make: make(v, v_star, activation=name, noise=noise)
