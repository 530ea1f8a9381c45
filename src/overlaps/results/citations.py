"""BibTeX of the papers whose equations a model or a result uses; ``references.bib`` has all of them."""

import re
from functools import cache
from importlib.resources import files
from typing import Any

from .._base import by_name, check
from ..models.features import features_of, problems

__all__ = ["cite"]

# Keys of papers: for models of every kind, by feature, by module of the class, and by rule of learning.
ONLINE = "SS95", "SS95a", "BS95"
FEATURES = {
    "trained_v": ("GASKZ19",), "several": ("YO19",), "heads": ("LGS21",), "Stages": ("LGS21",), "classes": ("RGKZ21",),
    "step": ("BP22", "DKLPS24"),
    "pull": ("LG25", "FEGPP25"),
}  # fmt: skip
MODULES = {
    "manifold": ("GMKZ20",), "manifold.gaussian_covariates": ("LGC21",), "protocols": ("SR97",),
    "static.spiked": ("C24",), "static.bayes": ("W26",), "theory.quadratic": ("B26",), "theory.scaling": ("PPXP24",),
    "theory.cayley_hamilton": ("YO19", "WR24"), "analysis.minima": ("SS18",),
}  # fmt: skip
RULES = {
    "perceptron": "BR94", "adatron": "BR94", "optimal": "KC92", "feedback_alignment": "RDOG21", "residual": "MXAP25",
    "adagrad_norm": "CSMPP24", "line_search": "CSMPP24", "episode": "PLMGS23", "attention": "ALSKZ25",
}  # fmt: skip


class BibTeX(str):
    """BibTeX entries, shown as they are."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@by_name("ov.cite(traj)")
def cite(result: Any) -> BibTeX:
    """BibTeX of the papers whose equations a model, a state of the theory or a result uses.

    Parameters
    ----------
    result : Any
        A model, a trajectory, runs, a problem or a solution of ``ov.static``, any other result.

    Returns
    -------
    BibTeX
        A string, which a notebook shows as it is; empty if no paper is recorded.

    Raises
    ------
    ValueError
        For objects of other packages.

    Examples
    --------
    >>> import overlaps as ov
    >>> entries = ov.cite(ov.committee_machine(2, 2, eta=0.5, eta_v=0.1))
    >>> [line for line in entries.splitlines() if line.startswith("@")]
    ['@article{SS95,', '@article{SS95a,', '@article{BS95,', '@inproceedings{GASKZ19,']
    """
    keys: list[str] = []
    if not type(result).__module__.startswith("overlaps"):
        raise check.refused("result", result, "a model or a result, such as ov.solve(...).")
    for source in (result, getattr(result, "model", None), *getattr(result, "models", ())):
        if hasattr(source, "combinations"):
            keys += _of_model(source, getattr(result, "step", None))
        for kind in type(source).__mro__:
            module = kind.__module__.removeprefix("overlaps.")
            keys += [key for name, papers in MODULES.items() if f"{module}.".startswith(f"{name}.") for key in papers]
    table = references()
    return BibTeX("\n".join(table[key] for key in dict.fromkeys(keys)))


def _of_model(model, step):
    keys = list(ONLINE)
    for problem in problems(model, step=step):
        keys += [key for feature in features_of(problem) for key in FEATURES.get(feature, ())]
        for task in problem.tasks:
            keys += ["B26"] if task.activation.name == "quadratic" else []
            made_by = task.rule.recipe[:1] if task.rule else ()  # the name of a function of ov.rules
            keys += [RULES[name] for name in made_by if name in RULES]
    return keys


@cache
def references() -> dict[str, str]:
    """Entries of ``references.bib`` by key, in its order."""
    text = (files(__package__) / "references.bib").read_text(encoding="utf-8")
    return {key: entry for entry, key in re.findall(r"^(@\w+\{(\w+).*?^\})", text, re.M | re.S)}
