"""Table of the arrays of results: axes and descriptions, for files and labelled arrays."""

from typing import NamedTuple

import numpy as np


class Field(NamedTuple):
    """Letters of the axes of an array, and its description.

    r runs or trajectories, t times, L blocks, K students, M teachers, C classes, N inputs, D latents, G directions
    that adapt a student, i tasks, d fluctuating variables, z packed variables. A single solution has no axis r.
    """

    letters: str
    words: str = ""  # empty for arrays in files that are not in labelled datasets
    extended_letters: str = ""  # with one axis more: tasks of mixed readouts, times where the inputs change


FIELDS = {
    "alpha": Field("t", "learning time, steps / N"),
    "eps_g": Field("rt", "generalisation error"),
    "error": Field("rt", "generalisation error on each task"),
    "eta": Field("t", "learning rate"),
    "stage": Field("t", "index of the stage"),
    "task": Field("", "index of the stage of the task"),
    "test_error": Field("rt", "error on fresh samples"),
    "test_error_se": Field("rt", "standard error of test_error"),
    "Q": Field("rtKK", "covariance of the student fields"),
    "R": Field("rtKM", "covariance of student and teacher fields"),
    "v": Field("rtK", "second layer of the student", "rtiK"),
    "u": Field("rtGG", "covariance of the fields of trained directions"),
    "a": Field("rtKG", "amplitudes of trained directions"),
    "q": Field("rtLKK", "block overlaps of the students, W P_l W^T / N"),
    "r": Field("rtLKM", "block overlaps of students and teachers, s_l W P_l W*^T / N"),
    "m": Field("rtLKC", "block overlaps of students and class means, W P_l mu / sqrt N"),
    "mean_fields": Field("rtKC", "means of the student fields in each class"),
    "T": Field("rMM", "covariance of the teacher fields", "rtMM"),
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
FIELDS |= {"records": Field("rtz"), "ends": Field("rz"), "start_v": Field("rK", extended_letters="riK")}
# variables of labelled datasets
LABELLED = ("eps_g", "test_error", "test_error_se", "Q", "R", "v", "q", "r", "m", "mean_fields", "T", "tau", "h", "nu")


def letters_of(name, value, has_runs):
    """Return the letters of the axes of an array with this name; without r if it has no axis of runs."""
    letters, _, extended = FIELDS[name]
    if not has_runs:
        letters, extended = letters.removeprefix("r"), extended.removeprefix("r")
    return extended if extended and np.ndim(value) > len(letters) else letters


def dims(name, *runs, value=None):
    """Return the dimensions of an array by the letters of the notation; ``runs`` replaces r."""
    letters = letters_of(name, value, len(runs) > 0).removeprefix("r")
    names: list[str] = []
    for letter in letters:
        name = {"t": "alpha", "i": "task", "L": "block"}.get(letter, letter.lower())
        names.append(f"{name}2" if name in names else name)
    return (*runs, *names)
