"""Helpers of public functions: names in ``dir``, arguments by name, warnings, progress bars, Ctrl-C."""

import contextlib
import difflib
import functools
import inspect
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import numpy as np

from . import check

Called = TypeVar("Called", bound=Callable[..., Any])
# Files of the library, and contextlib, whose frames lie between those of the library at a ``with``.
OWN_FILES = str(Path(__file__).parents[1]) + os.sep, contextlib.__file__
_quiet = ContextVar("quiet", default=False)


def public_dir(name):
    """``__dir__`` of the module of this name: its ``__all__`` and the dunder names, without its helpers."""
    return lambda: [*sys.modules[name].__all__, *(x for x in vars(sys.modules[name]) if x.startswith("__"))]


# Names of other libraries for the arguments of this one; the first that a function takes is the right one.
OTHER_WORDS = {
    "eta": "lr learning_rate step_size learningrate eta_w",
    "eta_v": "lr_v eta_2 eta2",
    "rng": "seed random_state generator key random_seed",
    "noise": "sigma noise_std label_noise std sigma_noise",
    "alpha": "t time times t_span t_eval tspan ts saveat alphas t_max epochs interval",
    "N": "n dim d D n_features input_dim dimension",
    "K": "n_hidden hidden width n_students hidden_units k",
    "M": "n_teachers teachers m",
    "activation": "act nonlinearity g phi sigma_fn activation_function",
    "teacher_activation": "g_star activation_star activation_teacher",
    "weight_decay": "wd l2 weightdecay decay regularization",
    "batch_size": "batch minibatch bs b",
    "spectrum": "cov covariance Sigma eigenvalues inputs",
    "v": "second_layer readout a output_weights",
    "v_star": "vstar teacher_v v_teacher readout_star",
    "W_star": "Wstar W_teacher teacher_weights W_",
    "normalised": "normalized normalize normalise",
    "gradient_flow": "gf gradientflow",
    "start": "y0 x0 init initial initial_state state0 state",
    "state": "start y0 x0 point",
    "guess": "start x0 y0 state",
    "runs": "n_runs repeats trials num_runs repetitions",
    "rtol": "tol tolerance reltol eps",
    "atol": "abstol",
    "tol": "rtol tolerance xtol",
    "max_iterations": "maxiter max_iter iterations",
    "method": "solver integrator algorithm",
    "threads": "n_jobs workers n_workers num_workers n_threads",
    "executor": "n_jobs workers n_workers num_workers pool",
    "progress": "verbose pbar show_progress progress_bar disp",
    "stop": "events event terminate",
    "checkpoint": "cache path file",
    "grid": "params param_grid parameters",
    "function": "func f fun",
    "every_step": "dense_output steps all_steps save_everystep",
    "student_scale": "scale init_scale weight_scale",
    "beta": "exponent power",
    "L": "n_eigenvalues n_blocks blocks size",
    # of results
    "eps_g": "loss error risk mse test_loss test_error generalization_error generalisation_error",
    "to_pandas": "to_dataframe to_df df dataframe",
    "to_xarray": "to_dataset ds dataset",
    "certified": "certificate",
    "save": "dump write to_file to_npz",
    "at": "sol interpolate interp",
    "plot": "show figure draw",
    "success": "converged ok",
}
NAMES_OF_WORD: dict[str, list[str]] = {}  # the same by the word of another library
for name, words in OTHER_WORDS.items():
    for word in words.split():
        NAMES_OF_WORD.setdefault(word, []).append(name)
# Numbers that functions take from their model, and sizes.
OF_MODEL = "eta eta_v noise weight_decay batch_size spectrum gradient_flow v_star activation".split()
SIZES = ("K", "M")


def translated(word: str, known: Any) -> str:
    """The name among ``known`` that a word of another library means; "" if there is none."""
    return next((name for name in NAMES_OF_WORD.get(word, ()) if name in known), "")


def advice(word: str, known: Any) -> str:
    """Phrase about an unknown argument: its name here, or where it belongs, or the names there are."""
    name = translated(word, (*known, *OF_MODEL, *SIZES)) or word
    if name in known:
        return f"expected {name}="
    if name in SIZES:
        return f"{name} is a size of the model, which its constructor takes"
    if name in OF_MODEL:
        return f"{name} is a number of the model, model.replace({name}=...)"
    similar = difflib.get_close_matches(word, known, 1, 0.75)
    return f"expected {similar[0]}=" if similar else f"expected some of {', '.join(known)}"


def by_name(example: str) -> Callable[[Called], Called]:
    """Decorator: calls with wrong, missing or misplaced arguments are refused, with an example of the right call."""

    def decorate(function: Called) -> Called:
        parameters = [*inspect.signature(function).parameters.values()]
        positional = [x.name for x in parameters if x.kind is x.POSITIONAL_OR_KEYWORD]
        names = [x.name for x in parameters if x.kind is x.KEYWORD_ONLY]
        required = [x.name for x in parameters if x.default is x.empty and x.name in (*positional, *names)]
        is_open = any(x.kind is x.VAR_KEYWORD for x in parameters)
        known = [x for x in (*positional, *names) if x not in ("self", "cls")]

        @functools.wraps(function)
        def call(*args, **named):
            if len(args) > len(positional):
                given = ", ".join(check.shown(x) for x in args[len(positional) :])
                listed = ", ".join(names[:4]) + (" ..." if len(names) > 4 else "")
                expected = f"{listed} by name: {example}" if names else f"at most {len(known)} arguments: {example}"
                raise TypeError(f"{function.__name__}() got {given} by position; expected {expected}.")
            for name in named:
                of_model = "model" in known and (name in OF_MODEL or translated(name, OF_MODEL))
                if name not in known and (not is_open or of_model or translated(name, known)):
                    given = f"{function.__name__}() got {name} = {check.shown(named[name])}"
                    raise TypeError(f"{given}; {advice(name, known)}: {example}.")
            twice = [x for x in positional[: len(args)] if x in named]
            missing = [x for x in required if x not in named and x not in positional[: len(args)]]
            if twice or missing:
                wrong = f"got {twice[0]} twice" if twice else f"misses {', '.join(missing)}"
                raise TypeError(f"{function.__name__}() {wrong}: {example}.")
            return function(*args, **named)

        return cast(Called, call)

    return decorate


class Listed:
    """Base of classes whose ``dir`` leaves out fields that are None, and the names in ``_hides``."""

    _hides: ClassVar[tuple[str, ...]] = ("kinds", "shows", "is_state", "is_ensemble")

    def __dir__(self):
        hidden = {x for kind in type(self).__mro__ for x in vars(kind).get("_hides", ())}
        names = {x for x in object.__dir__(self) if x.startswith("__") or not x.startswith("_")}
        return sorted(names - hidden - {x for x, value in vars(self).items() if value is None})

    if not TYPE_CHECKING:  # checkers would accept every name

        def __getattr__(self, name):
            if hasattr(type(self), name):  # a property that raised AttributeError, with a message of its own
                return object.__getattribute__(self, name)
            meant = translated(name, dir(self)) if name in NAMES_OF_WORD else ""  # dir takes as long as a short run
            hint = f"; expected {meant}" if meant else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)


class Variants(Listed):
    """Base of frozen dataclasses that users change field by field."""

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values of some fields, checked as in the constructor.

        Parameters
        ----------
        **changes
            New values by the names of the fields.

        Returns
        -------
        object of the same class

        Raises
        ------
        TypeError
            A name that is not a field; the message has the right one, or where it belongs.
        ValueError
            As the constructor.
        """
        known = [x.name for x in fields(cast(Any, self)) if x.init]
        kind = type(self).__name__
        for name, value in changes.items():
            if name not in known:
                phrase = advice(name, known)
                raise TypeError(f"{kind}.replace() got {name} = {check.shown(value)}; {phrase}.")
        return cast(Self, replace(cast(Any, self), **changes))


def outside() -> int:
    """Level, for ``warnings.warn`` of the caller, of the first frame outside the library."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FILES):
        frame, level = frame.f_back, level + 1
    return level


def warn(message):
    """Warn, with the line outside the library from which the call comes."""
    if not _quiet.get():
        warnings.warn(message, RuntimeWarning, stacklevel=outside())


@contextmanager
def quietly():
    """Suppress warnings of the library and of NumPy in this thread, for callers that handle them, such as searches.

    ``warnings.catch_warnings`` changes the filters of the whole process: if two threads leave it in the order in which
    they entered, the filters of the first, which ignore warnings, stay for good.
    """
    before = _quiet.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _quiet.reset(before)


@contextmanager
def bar(show, total, unit):
    """Yield a function of the amount done so far, or None without a bar; a callable ``show`` replaces the bar."""
    if callable(show):
        yield show
        return
    if not check.flag("progress", show):
        yield None
        return
    from tqdm.auto import tqdm

    form = "{desc}{percentage:3.0f}%|{bar}| {n:.6g}/{total:.6g} {unit} [{elapsed}<{remaining}]"
    with tqdm(total=total, unit=unit, bar_format=form) as tq:

        def tick(done):
            tq.update(done - tq.n)

        yield tick


def undisturbed(call: Callable[[], Any]) -> Any:
    """The result of a call of compiled code; Ctrl-C waits for its end.

    Without waiting, Ctrl-C in the Python code by which numba passes functions to machine code would raise a TypeError
    there, and the run would be lost.
    """
    with interrupts(wait=True):
        return call()


@contextmanager
def interrupts(wait: bool = False, kernel: bool = False) -> Iterator[list]:
    """Yield a list that is filled when Ctrl-C is pressed, even if the block catches it; with ``wait`` it comes later.

    ``wait`` delays Ctrl-C until the end of the block.  With ``kernel``, blocks may be nested, and Ctrl-C waits for the
    end of the innermost.
    """
    now = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(now):
        yield []
        return
    previous, pressed = getattr(now, "kernel", (now, []))

    def handler(*came):
        pressed.append(came)
        if not wait:
            previous(*came)

    if kernel:
        handler.kernel = previous, pressed
    signal.signal(signal.SIGINT, handler)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, now)
        if wait and pressed:
            pressed[1:] = []  # once, even if it was pressed several times
            previous(*pressed.pop())
