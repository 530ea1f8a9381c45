"""The equations that a model integrates, as text: LaTeX in a notebook, plain text in a terminal."""

import re
from typing import Any

from .._base import Immutable

# E[g_i g_j], E[g_i' g_j'] and E[g_i'' g_j] of fields with covariance S, for activations in closed form.
TWO_POINT = {
    "linear": ("S_{ij}", "1", "0"),
    "quadratic": (r"2 S_{ij}^2 + S_{ii} S_{jj}", r"4 S_{ij}", r"2 S_{jj}"),
    "erf": (
        r"\frac{2}{\pi} \arcsin(S_{ij}/\sqrt{(1 + S_{ii})(1 + S_{jj})})",
        r"\frac{2}{\pi}/\sqrt{(1 + S_{ii})(1 + S_{jj}) - S_{ij}^2}",
        r"-\frac{2}{\pi} S_{ij}/((1 + S_{ii}) \sqrt{(1 + S_{ii})(1 + S_{jj}) - S_{ij}^2})",
    ),
    "relu": (
        r"(\sqrt{S_{ii} S_{jj} - S_{ij}^2} + S_{ij} \arccos(-\rho_{ij}))/(2\pi)", r"\arccos(-\rho_{ij})/(2\pi)",
        r"\sqrt{S_{ii} S_{jj} - S_{ij}^2}/(2\pi S_{ii}), \qquad \rho_{ij} = S_{ij}/\sqrt{S_{ii} S_{jj}}",
    ),
}  # fmt: skip
SHOWN = {"linear": "x", "quadratic": "x^2", "erf": r"\text{erf}(x/\sqrt{2})", "relu": r"\max(x, 0)"}
FOUR_POINT = {
    "linear": r"C = \eta^2 (2\epsilon_g + \sigma^2) v v^T",
    "quadratic": r"C = 4\eta^2 diag(v) [(2\epsilon_g + \sigma^2) S + 2 S H S]_{KK} diag(v)",
}
PLAIN = {
    r"\\_": "_", r"\\q?quad": "  ", r"\\[,;]": " ", r"\\text\{([^{}]*)\}": r"\1", r"\\partial ?": "∂", r"\\sum": "Σ",
    r"\\(arcsin|arccos|max)": r"\1", "&": "", r"([_^])\{(\w+)\}": r"\1\2",
    **{rf"\\{name}(?![a-z])": letter for name, letter in zip(
        "alpha delta Delta epsilon eta theta kappa lambda mu nu xi pi rho sigma tau".split(), "αδΔεηθκλμνξπρστ",
        strict=True,
    )},
    r"\\frac\{([^{}]*)\}\{([^{}]*)\}": r"\1/\2", r"\\sqrt\{(\w)\}": r"√\1", r"\\sqrt\{([^{}]*)\}": r"√(\1)",
    r"[{}]": "", " +": " ",
}  # fmt: skip


class Equations(Immutable):
    r"""Equations of one model: LaTeX in a notebook, plain text in a terminal; made by :meth:`overlaps.Model.equations`.

    Attributes
    ----------
    flow : dict
        Right-hand side, in LaTeX, of the derivative by alpha of each variable that moves.
    definitions : tuple of str
        Closure, its closed form, sums over blocks, and the numbers of the model, in LaTeX.
    """

    flow: dict[str, str]
    definitions: tuple[str, ...]

    @property
    def latex(self) -> str:
        """All equations as one ``aligned`` environment."""
        rows = [rf"\frac{{d{x}}}{{d\alpha}} &= {terms}" for x, terms in self.flow.items()]
        rows += [text.replace(" = ", " &= ", 1) for text in self.definitions]
        return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"

    def _repr_latex_(self) -> str:
        return f"$${self.latex}$$"

    def __repr__(self) -> str:
        rows = [rf"d{x}/d\alpha = {terms}" for x, terms in self.flow.items()]
        return "\n".join(plain(row) for row in (*rows, *self.definitions))


def plain(latex: str) -> str:
    """A line of LaTeX as plain text."""
    for pattern, text in PLAIN.items():
        latex = re.sub(pattern, text, latex)
    return latex


def equations_of(model: Any) -> Equations:
    """:class:`Equations` of a model, of tasks mixed in one step, or of trained directions."""
    low_rank = "low_rank" in model.combinations
    network = model.model if low_rank else model
    flow = _overlaps(network) | _readout(network)
    if low_rank:
        flow = {x: _indexed(terms, "u") + pull for (x, terms), pull in zip(flow.items(), _pulls(model), strict=True)}
        decay = r" - \eta_a \kappa_v a" if network.weight_decay[1] else ""
        flow |= {"a": rf"\eta_a/\eta [A (a X + G_0^T) + B G_*^T]{decay}"} if model.eta_a else {}
    return Equations(flow, (*_definitions(network, model if low_rank else None), _numbers(model, network)))


def _pulls(model):
    """Terms of a pull (D, E) of directions in the derivatives of r and q."""
    if model.pull is None:
        return "", ""
    if _is_isotropic(model.model):
        return " + D R + E T", " + D Q + Q D^T + E R^T + R E^T"
    return r" + D r^l + E \tau^l/s_l", " + D q^l + q^l D^T + (E r^{lT} + r^l E^T)/s_l"


def _is_isotropic(model):
    return model.spectrum.L == model.spectrum.s[0] == 1 and not model.n_classes and len(model.tasks) == 1


def _text(x):
    name = str(x).replace("_", r"\_")
    return rf"\text{{{name}}}"


def _shown(activation):
    return SHOWN.get(activation.name) or _text(activation.name) + "(x)"


def _indexed(terms, index):  # A, B and C of one task or class
    return re.sub(r"\b([ABC])\b", rf"\1_{index}", terms)


def _overlaps(model):
    """Derivatives of r and q, or R and Q, and of the means m of fields in classes."""
    isotropic = _is_isotropic(model)
    q, r, tau, rT = ("Q", "R", "T", "R^T") if isotropic else ("q^l", "r^l", r"\tau^l", "r^{lT}")
    s, variance = ("", "") if isotropic else ("s_l ", "s_l p_l ")
    noise = "" if model.gradient_flow else f" + {variance}C" + ("/b" if model.batch_size > 1 else "")
    drift = f"A {q} + {q} A^T" if isotropic else f"s_l (A {q} + {q} A^T)"
    flow = {r: f"{s}A {r} + B {tau}", q: f"{drift} + B {rT} + {r} B^T{noise}"}
    eta = r"\eta"
    if model.n_classes:
        flow = {
            x: rf"\sum_c \pi_c [f_c {mean} + \rho_{{cl}} (s_l A_c {x} + B_c {source})]"
            for x, mean, source in ((r, "h_c^{lT}", tau), ("m^l", "G_c^{lT}", "h^l"))
        }
        noise = _indexed(noise.replace("+", r"+ \rho_{cl}"), "c")
        flow[q] = rf"\sum_c \pi_c [X_c + X_c^T{noise}]"
    elif len(model.tasks) > 1:  # in the units of the first task
        mean = r"\sum_i \pi_i " + ("" if (model.ratios == 1).all() else r"\rho_{il} ")
        flow = {x: f"{mean}[{_indexed(terms, 'i')}]" for x, terms in flow.items()}
        eta = r"\sum_i \pi_i \eta_i"
    for x in flow:
        flow[x] += rf" - {'2' if x == q else ''}{eta} \kappa {x}" if model.weight_decay[0] else ""
        flow[x] += rf" - \delta {x}" if model.drift and x == r else ""
        flow[x] += rf" - diag(\mu) {x}" + (rf" - {x} diag(\mu)" if x == q else "") if model.spherical else ""
    return flow


def _readout(model):
    """Derivative of the second layer, or of the parameters of a rule, if they are trained."""
    if not model.trains_v:
        return {}
    x, gradient = (r"\theta", "-E[G]") if model.rule else ("v", r"E[g(\lambda) \Delta]")
    index = "c" if model.n_classes else "i" if len(model.tasks) > 1 else ""
    mean = rf"\sum_{index} \pi_{index} " if index else ""
    if "heads" in model.combinations:
        x, mean = "v_i", r"\pi_i "
    gradient = gradient.replace("E[", f"E_{index}[") if index else gradient
    decay = rf" + \kappa_v {x}" if model.weight_decay[1] else ""
    rate = r"\eta_\theta" if model.rule else r"\eta_v"
    return {x: rf"-{mean}{rate} ({gradient}{decay})" if decay else f"-{mean}{rate} {gradient}"}


def _definitions(model, directions=None):
    """The sums over blocks, the multipliers of spheres, and the closure."""
    student, teacher = model.activation, model.teacher_activation
    lines = [] if _is_isotropic(model) else [r"Q = \sum_l s_l q^l, \qquad R = \sum_l r^l"]
    if model.n_classes:
        lines = [
            r"Q_c = \sum_l \rho_{cl} s_l q^l, \qquad R_c = \sum_l \rho_{cl} r^l, \qquad f_c = E_c[F]",
            r"X_c = f_c m_c^{lT} + \rho_{cl} (s_l A_c q^l + B_c r^{lT})",
        ]
    if directions is not None:
        to, back = ("a^T", "a") if directions.write is None else (r"\text{write}", r"\text{write}^T")
        lines += [rf"A_u = {to} A a, \qquad B_u = {to} [A, B], \qquad C_u = {to} C {back}"]
        lines += [] if directions.pull is None else [r"[D, E] = \text{pull}" + r"(\alpha)" * callable(directions.pull)]
    if model.spherical:
        noise = r" + C_{kk}" + (r" \sum_l s_l p_l" if lines else "") + ("/(2b)" if model.batch_size > 1 else "/2")
        noise = "" if model.gradient_flow else noise
        norm = r"\sum_l q^l_{kk}" if lines else "Q_{kk}"
        lines += [rf"\mu_k n_k = (A Q)_{{kk}} + (B R^T)_{{kk}}{noise}, \qquad n_k = {norm}"]
    if model.rule and model.rule.tokens > 1:  # c differs between eigenspaces, and then A, B and C do
        lines += [
            r"[A, B] = \sum_{ab} c_{ab} E[\partial F^a/\partial z^b], \qquad z = (\lambda, \nu)",
            r"C_{kl} = \sum_{ab} c_{ab} E[F^a_k F^b_l]",
        ]
    else:
        lines += [r"A_{kj} = E[\partial F_k/\partial\lambda_j], \qquad B_{km} = E[\partial F_k/\partial\nu_m]"]
        lines[-1] += "" if model.gradient_flow else r", \qquad C_{kl} = E[F_k F_l]"
    if model.rule:
        return [*lines, rf"F_k = \eta f_k(\lambda, \nu, \xi; \theta, S) \quad\text{{of }} {_text(model.rule)}"]
    target = r" - \sum_m v^*_m g_*(\nu_m)" if model.M else ""
    target += (" - y_c" if model.n_classes else "") + (r" - \sigma \xi" if model.noise else "")
    lines += [rf"F_k = -\eta v_k g'(\lambda_k) \Delta, \qquad \Delta = \sum_k v_k g(\lambda_k){target}"]
    lines += [rf"g(x) = {_shown(student)}, \qquad g_*(x) = {_shown(teacher)}"]
    if student == teacher and student.name in TWO_POINT and not model.n_classes:
        g, dg, d2g = TWO_POINT[student.name]
        lines += [
            r"A = -\eta H_{KK}, \qquad B = -\eta H_{KM}, \qquad w = (v, -v^*)",
            r"H_{ij} = w_i w_j E[g_i' g_j'] + \delta_{ij} w_i \sum_c w_c E[g_i'' g_c]",
            r"\epsilon_g = \frac{1}{2} \sum_{ij} w_i w_j E[g_i g_j]",
            *(f"E[{name}] = {form}" for name, form in (("g_i g_j", g), ("g_i' g_j'", dg), ("g_i'' g_j", d2g))),
        ]
        lines += [] if model.gradient_flow or student.name not in FOUR_POINT else [FOUR_POINT[student.name]]
    return lines


def _numbers(model, network):
    """Unit of time, and the numbers that are not neutral."""
    symbols = {
        "K": network.K, "M": network.M, "L": network.spectrum.L, r"\eta": network.eta,
        r"\eta_\theta" if network.rule else r"\eta_v": network.eta_v, r"\eta_a": getattr(model, "eta_a", 0),
        r"\sigma": network.noise, r"\kappa": network.weight_decay[0], r"\delta": network.drift,
        r"\kappa_v": network.weight_decay[1] if network.trains_v else 0, "b": network.batch_size,
    }  # fmt: skip
    shown = [f"{name} = {x:g}" for name, x in symbols.items() if x and (name not in "Lb" or x > 1)]
    return r"\alpha = \text{steps}/N, \qquad " + r", \quad ".join(shown)
