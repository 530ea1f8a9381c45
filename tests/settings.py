"""Small problems with generic numbers, for every feature of ``overlaps.models.features`` and every pair of them."""

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

import overlaps as ov

END, SIZE = 0.6, 40  # time; input dimension of runs
# generic overlaps: no 1 and no 0, which hide factors
Q = np.array([[0.62, 0.13], [0.13, 0.47]])
R = np.array([[0.31, 0.07], [0.11, 0.23]])
T = np.array([[1.1, 0.2], [0.2, 0.9]])
OF_BLOCKS = {
    "q": (0.4, 0.6),
    "r": (0.45, 0.55),
    "t": (0.5, 0.5),
}  # which fraction of the overlaps each of two blocks has


def plain(lam, nu, xi, theta, S, F, G):
    """Squared loss of a linear unit with an offset theta."""
    F[0] = G[0] = nu[0] - lam[0] - theta[0]


def shaped(lam, nu, xi, theta, S, F, G):
    """The same, at a rate that depends on the overlaps."""
    F[0] = G[0] = (nu[0] - lam[0] - theta[0]) * (0.6 + 0.3 * S[0, 1])


def unshaped(lam, nu, xi, theta, S, F, G):
    """The same, with overlaps that are read and change nothing."""
    F[0] = G[0] = (nu[0] - lam[0] - theta[0]) * (1 + 0 * S[0, 1])


def paired(lam, nu, xi, theta, S, F, G):
    """Two inputs of a sample, each of which moves by the fields of the other, too."""
    for a in range(2):
        F[a, 0] = nu[a, 0] - lam[a, 0] - theta[0] + 0.2 * lam[1 - a, 0]


def halved(lam, nu, xi, theta, S, F, G):
    """The squared loss of the mean of two inputs."""
    for a in range(2):
        F[a, 0] = (nu[0, 0] + nu[1, 0] - lam[0, 0] - lam[1, 0]) / 4 - theta[0] / 2
        G[0] += 2 * F[a, 0] / 2


def error(lam, nu, theta):
    """Squared error."""
    return (nu[0] - lam[0]) ** 2 / 2


def error_of_two(lam, nu, theta):
    """Squared error of the mean of two inputs."""
    return (nu[0, 0] + nu[1, 0] - lam[0, 0] - lam[1, 0]) ** 2 / 8


C1, C2 = [[1.0, 0.3], [0.3, 1.0]], [[1.0, -0.4], [-0.4, 1.0]]
RULES = {
    "rule": lambda: ov.Rule(plain, K=1, M=1, error=error),
    "overlaps": lambda: ov.Rule(shaped, K=1, M=1, error=error, uses_overlaps=True),
    "no overlaps": lambda: ov.Rule(unshaped, K=1, M=1, error=error, uses_overlaps=True),
    "tokens": lambda: ov.Rule(paired, K=1, M=1, error=error_of_two, tokens=2, token_covariance=C1),
    "copies": lambda: ov.Rule(halved, K=1, M=1, error=error_of_two, tokens=2, token_covariance=np.ones((2, 2))),
    "tokens_by_block": lambda: ov.Rule(paired, K=1, M=1, error=error_of_two, tokens=2, token_covariance=[C1, C2]),
    "equal blocks": lambda: ov.Rule(paired, K=1, M=1, error=error_of_two, tokens=2, token_covariance=[C1, C1]),
}


@cache
def rule(name):
    """The rule of this name, probed and compiled once."""
    return RULES[name]()


@dataclass
class Setting:
    """Arguments of a call, changed by its features one by one."""

    activation: str = "erf"
    rule: str = ""
    theta: float = 0.1
    data: str = ""
    numbers: dict = field(default_factory=lambda: {"eta": 0.37})
    s: tuple = (1.0,)
    p: tuple = (1.0,)
    ratios: tuple = ((1.0, 0.7), (0.6, 1.2))
    centroids: float = 1.0  # factor on labels and means of classes
    wrappers: dict = field(default_factory=dict)  # name: how, in the order in which they are put on
    schedule: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)

    def built(self):
        """(model, start, schedule, options)."""
        model, start = DATA[self.data](self, ov.Spectrum(s=self.s, p=self.p))
        for name, how in self.wrappers.items():
            model, start = WRAPPERS[name](model, start, how)
        return model, start, self.schedule or None, self.options


def inputs(x, spectrum):
    """Gaussian inputs that the teacher sees."""
    if x.rule:
        numbers = {{"eta_v": "eta_theta"}.get(name, name): value for name, value in x.numbers.items()}
        if "noise" in numbers:  # no argument of ov.learner
            return replace(ov.learner(rule(x.rule), spectrum=spectrum, eta=0.3), noise=numbers["noise"]), None
        model = ov.learner(rule(x.rule), spectrum=spectrum, theta=[x.theta], **numbers)
    else:
        K = 1 if x.activation == "linear" else 2  # beside the rule of a linear unit
        v, v_star = ([1.0, 0.8], [0.9, 1.1]) if K == 2 else ([1.0], [1.0])
        model = ov.committee_machine(K, K, activation=x.activation, v=v, v_star=v_star, spectrum=spectrum, **x.numbers)
    return model, started(model)


def started(model, **more):
    """The start of every problem, in one block or in two."""
    K, M, L = model.K, model.M, model.spectrum.L
    blocks = {"q": Q[:K, :K], "r": R[:K, :M], "t": T[:M, :M]}
    fractions = OF_BLOCKS if L == 2 else dict.fromkeys(blocks, (1.0,))
    return ov.State.from_blocks(model, **{x: [f * a for f in fractions[x]] for x, a in blocks.items()}, **more)


def classes(x, spectrum, **more):
    """Inputs in two classes, with a teacher."""
    size = x.centroids
    G, m, n = (
        np.array([[0.5, 0.1], [0.1, 0.4]]),
        np.array([[0.2, 0.1], [-0.1, 0.15]]),
        np.array([[0.1, -0.1], [0.2, 0.1]]),
    )
    parts = (1.0,) if spectrum.L == 1 else (0.6, 0.4)
    activation = rule(x.rule).activation if x.rule else x.activation
    numbers = {**x.numbers, "constraint": x.numbers.get("constraint"), "drift": x.numbers.get("drift", 0.0)}
    extra = {name: numbers.pop(name) for name in ("constraint", "drift")}
    model = ov.gaussian_mixture(
        2, 2, weights=[0.3, 0.7], labels=[0.5 * size, -0.2 * size], gram=[size**2 * f * G for f in parts],
        spectrum=spectrum, activation=activation, teacher_activation=activation, v=[1.0, 0.8], v_star=[0.9, 1.1],
        **more, **numbers,
    )  # fmt: skip
    model = replace(model, **extra) if any(extra.values()) else model
    return model, started(model, m=[size * f * m for f in parts], n=[size * f * n for f in parts])


def manifold(x, spectrum):
    """A teacher that acts on latents."""
    activation = rule(x.rule).activation if x.rule else x.activation
    options = {"v": [1.0, 0.8], "v_star": [0.9, 1.1]}
    model = ov.hidden_manifold(2, 2, activation=activation, features="sign", ratio=0.5, nodes=2, **options, **x.numbers)
    return model, model.random_start(N=SIZE, rng=3)


DATA = {
    "": inputs,
    "classes": classes,
    "ratios": lambda x, spectrum: classes(x, spectrum, ratios=x.ratios),
    "latents": manifold,
}


def distilled(model, start, weight):
    """Labels of a frozen student, by ``weight``."""
    return ov.distill(model, start, Q="copy", weight=weight)


def biases(model, start, neutral):
    """Biases of students and teachers, or biases that stay zero."""
    rate, b, b_star = (1e-12, [0.0, 0.0], None) if neutral else (0.43, [0.2, -0.1], [0.3, -0.2][: model.M])
    return ov.biased(model, start, b=b[: model.K], b_star=b_star, rate=rate)


def directions(model, start, how):
    """Trained directions: one, or as many as units, which then are all that there is; pulled, or by nothing."""
    n = model.K + model.M
    if how in ("neutral", "no pull"):
        X = np.zeros((model.spectrum.L, model.K, model.K))
        pull = np.zeros((model.K, model.K + n)) if how == "no pull" else None
        return ov.low_rank(model, start, a=np.eye(model.K), X=X, pull=pull)
    memory = {}
    if how == "pull":
        pull = np.array([[-0.4, *np.resize([0.2, -0.1, 0.15, 0.25], n)]])
        pull[:, 1:] *= model.spectrum.s.min() > 1e-9  # of static rows there are no overlaps in blind eigenspaces
        memory = {"write": np.array([[0.7, 0.5]])[:, : model.K], "pull": lambda alpha: (1 + 0.3 * alpha) * pull}
    return ov.low_rank(model, start, a=np.array([[0.8], [0.6]])[: model.K], X=[[0.7]], eta_a=0.3, **memory)


def other(model):
    """Another task for the same network."""
    if "Mixed" in model.combinations:
        return ov.Mixed(model.models, [0.4, 0.6], heads=model.heads)
    if "low_rank" in model.combinations:
        return model
    if not hasattr(model, "v_star") or model.rule is not None:
        return replace(model, eta=0.8 * model.eta) if hasattr(model, "eta") and model.combinations == () else model
    return replace(model, v_star=0.7 * model.v_star[::-1])


WRAPPERS = {
    "biases": biases,
    "distilled": distilled,
    "low_rank": directions,
    "Mixed": lambda model, start, shares: (ov.Mixed([model, other(model)], shares), start),
    "heads": lambda model, start, shares: (
        ov.Mixed([model, other(model)], shares, heads=[start.v, [0.6, 1.2][: model.K]]), start,
    ),
    "Stages": lambda model, start, same: (ov.Stages([model, model if same else other(model)], [0.3, 5.0]), start),
}  # fmt: skip


def factor(low, high):
    """A factor with a knot inside the interval."""
    return ov.Schedule([0.0, 0.25, 5.0], [high, low, high])


def several(x, s=(1.6, 0.4)):
    """Two eigenvalues, unless there are two already."""
    if len(x.s) == 1:
        x.s, x.p = s, (0.25, 0.75)


def numbered(**numbers):
    """A change of the numbers of the model."""
    return lambda x: x.numbers.update(numbers)


def scheduled(name, f, **numbers):
    """A schedule on a number, which is not zero."""

    def change(x):
        x.numbers = {**numbers, **x.numbers}
        x.schedule[name] = f

    return change


def with_rule(name):
    """A rule in place of a loss."""

    def change(x):
        x.rule = name
        if name in ("tokens_by_block", "equal blocks"):
            several(x)

    return change


def with_data(name, **fields):
    """Another kind of inputs."""

    def change(x):
        x.data = name
        vars(x).update(fields)
        if name == "ratios":
            several(x)

    return change


def wrapped(name, how):
    """Tasks put together."""
    return lambda x: x.wrappers.update({name: how})


def optional(**options):
    """An option of solve."""
    return lambda x: x.options.update(options)


def blind(s):
    """An eigenspace without variance, or nearly so."""

    def change(x):
        x.s, x.p = (1.6, s), (0.25, 0.75)

    return change


def constant(name, **numbers):
    """A schedule that changes nothing, and what has the same answer."""
    return scheduled(name, ov.Schedule.constant(1.0), **numbers), lambda x: vars(x).update(numbers=numbers | x.numbers)


SCHEDULED = {
    "eta": {},
    "eta_v": {"eta_v": 0.29},
    "noise": {"noise": 0.3},
    "weight_decay": {"weight_decay": 0.17},
    "batch_size": {"batch_size": 3},
    "s": {},
}
STEP = ov.Schedule.step([0.3], [2.0])
FEATURES = {  # each with generic numbers
    "noise": numbered(noise=0.3),
    "decay": numbered(weight_decay=0.17),
    "batches": numbered(batch_size=3),
    "flow": numbered(gradient_flow=True),
    "sphere": numbered(constraint="sphere"),
    "drift": numbered(drift=0.07),
    "trained_v": numbered(eta_v=0.29),
    "rule": with_rule("rule"),
    "overlaps": with_rule("overlaps"),
    "tokens": with_rule("tokens"),
    "tokens_by_block": with_rule("tokens_by_block"),
    "classes": with_data("classes"),
    "ratios": with_data("ratios"),
    "biases": wrapped("biases", False),
    "latents": with_data("latents"),
    "several": several,
    "blind": blind(0.0),
    "kinked": lambda x: setattr(x, "activation", "relu"),
    "Mixed": wrapped("Mixed", [0.7, 0.3]),
    "heads": wrapped("heads", [0.7, 0.3]),
    "low_rank": wrapped("low_rank", ""),
    "pull": wrapped("low_rank", "pull"),
    "distilled": wrapped("distilled", 0.6),
    "Stages": wrapped("Stages", False),
    "eta(alpha)": scheduled("eta", factor(0.4, 1.2)),
    "eta_v(alpha)": scheduled("eta_v", factor(0.6, 1.3), eta_v=0.29),
    "noise(alpha)": scheduled("noise", factor(0.5, 1.3), noise=0.3),
    "weight_decay(alpha)": scheduled("weight_decay", factor(0.3, 1.4), weight_decay=0.17),
    "batch_size(alpha)": scheduled("batch_size", STEP, batch_size=3),
    "s(alpha)": scheduled("s", factor(0.7, 1.3)),
    "late": optional(late=True),
    "sums": optional(blocks=False),
    "stop": optional(stop=0.16),
    "certify": optional(certify=True),
    "step": optional(step=END / 2),
}
# Each with numbers that change nothing, beside what the same answer comes from: nothing by default.
NOTHING = (lambda x: None,)
NEUTRAL = {
    "noise": (numbered(noise=1e-9),),
    "decay": (numbered(weight_decay=1e-13),),
    "drift": (numbered(drift=1e-13),),
    "trained_v": (numbered(eta_v=1e-13),),
    "rule": (lambda x: vars(x).update(rule="rule", theta=0.0), lambda x: setattr(x, "activation", "linear")),
    "overlaps": (with_rule("no overlaps"), with_rule("rule")),
    "tokens": (with_rule("copies"), with_rule("rule")),
    "tokens_by_block": (with_rule("equal blocks"), lambda x: (with_rule("tokens")(x), several(x))),
    "classes": (with_data("classes", centroids=0.0),),
    "ratios": (
        with_data("ratios", ratios=((1.0, 1.0), (1.0, 1 + 1e-13))), lambda x: (with_data("classes")(x), several(x)),
    ),
    "biases": (wrapped("biases", True),),
    "several": (lambda x: several(x, (1.0, 1.0)),),
    "blind": (blind(1e-14), blind(0.0)),
    "Mixed": (wrapped("Mixed", [1.0, 0.0]),),
    "heads": (wrapped("heads", [1.0, 0.0]),),
    "low_rank": (wrapped("low_rank", "neutral"),),
    "pull": (wrapped("low_rank", "no pull"), wrapped("low_rank", "neutral")),
    "distilled": (wrapped("distilled", 0.0),),
    "Stages": (wrapped("Stages", True),),
    **{f"{name}(alpha)": constant(name, **x) for name, x in SCHEDULED.items()},
    "late": (optional(late=True),),
    "sums": (optional(blocks=False),),
    "stop": (optional(stop=1e-12),),
    "certify": (optional(certify=True),),
}  # fmt: skip
ORDER = [*FEATURES]  # kinds of data and rules before what is put on them


def build(*names, change=None):
    """(model, start, schedule, options) with these features, and one more change before what wraps the model."""
    x = Setting()
    for name in sorted(names, key=ORDER.index):
        FEATURES[name](x)
    if change is not None:
        change(x)
    return x.built()
