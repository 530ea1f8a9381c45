"""The arrays of results by name: the letters of their axes, and what they are; read by files and by labels."""

from typing import NamedTuple

import numpy as np


class Field(NamedTuple):
    """Axes: r runs or trajectories, t times, L blocks, K students, M teachers, C classes, N and D inputs and latents.

    Directions that adapt a student have an axis G, readouts of mixed tasks an axis i of tasks, T one of times where
    inputs change, d one of all unknowns that fluctuate: see ``letters_of``.

    A single solution has the same arrays without r. Fields without words stay in files and have no label.
    """

    letters: str
    words: str = ""


FIELDS = {
    "alpha": Field("t", "learning time, steps / N"),
    "eps_g": Field("rt", "generalisation error"),
    "error": Field("rt", "generalisation error on each task"),
    "eta": Field("t", "learning rate"),
    "stage": Field("t", "index of the stage"),
    "task": Field("", "index of the stage that learns the task"),
    "test_error": Field("rt", "error on fresh samples"),
    "test_error_se": Field("rt", "standard error of test_error"),
    "Q": Field("rtKK", "covariance of the student fields"),
    "R": Field("rtKM", "covariance of student and teacher fields"),
    "v": Field("rtK", "second layer of the student"),
    "u": Field("rtGG", "covariance of the fields of trained directions"),
    "a": Field("rtKG", "amplitudes of trained directions"),
    "q": Field("rtLKK", "block overlaps of the students, W P_l W^T / N"),
    "r": Field("rtLKM", "block overlaps of students and teachers, s_l W P_l W*^T / N"),
    "m": Field("rtLKC", "block overlaps of students and class means, W P_l mu / sqrt N"),
    "mean_fields": Field("rtKC", "means of the student fields in each class"),
    "T": Field("rMM", "covariance of the teacher fields"),
    "tau": Field("rLMM", "teacher source, s_l^2 W* P_l W*^T / N"),
    "h": Field("rLMC", "block overlaps of teachers and class means, s_l W* P_l mu / sqrt N"),
    "nu": Field("rMC", "means of the teacher fields in each class"),
    "label": Field("C", "labels of the classes"),
    "weight": Field("C", "probabilities of the classes"),
    "s": Field("L", "eigenvalues of the input covariance"),
    "p": Field("L", "weights of the eigenvalues"),
    "success": Field("r", "whether the integration succeeded"),
    "end": Field("r", "time of the last record"),
    "nfev": Field("r", "evaluations of the right-hand side"),
}
FIELDS |= {"covariances": Field("tdd"), "shifts": Field("td"), "gradients": Field("td"), "bends": Field("t")}
FIELDS |= {name: Field("t") for name in ("eps_late", "floor_late", "eps_error", "error_eps_g")}
FIELDS |= {f"error_{name}": Field(FIELDS[name].letters.removeprefix("r")) for name in ("Q", "R", "v", "mean_fields")}
FIELDS |= {"W": Field("rKN"), "W_star": Field("rMD"), "F": Field("rND"), "final_W": Field("rKN")}
FIELDS |= {"records": Field("rtz"), "ends": Field("rz"), "start_v": Field("rK")}
LABELLED = ("eps_g", "test_error", "test_error_se", "Q", "R", "v", "q", "r", "m", "mean_fields", "T", "tau", "h", "nu")
ADAPTED = ("eps_g", "Q", "R", "u", "a")  # of a frozen student with directions


LONGER = {"v": "rtiK", "T": "rtMM", "start_v": "riK"}  # with one axis more


def letters_of(name, value, many):
    """Letters of the axes of an array under this name, without r where there are not several runs."""
    letters = FIELDS[name].letters if many else FIELDS[name].letters.removeprefix("r")
    if name in LONGER and np.ndim(value) > len(letters):
        return LONGER[name] if many else LONGER[name].removeprefix("r")
    return letters


def dims(name, *runs, value=None):
    """Dimensions of an array under the letters of the notation, with ``runs`` in the place of r."""
    letters = letters_of(name, value, len(runs) > 0).removeprefix("r")
    named = letters.replace("KK", "kl").replace("MM", "mn").replace("GG", "gh").replace("L", "e").lower()
    return (*runs, *({"t": "alpha", "i": "task"}.get(x, x) for x in named))
