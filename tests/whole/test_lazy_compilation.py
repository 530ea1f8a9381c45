"""Kernels that begin as Python: what runs, what is counted, when they are compiled; first calls of fresh processes."""

import math
import os
import pickle
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

from overlaps._base import kernel_cache, lazy_compilation
from overlaps._base.jit import jit
from overlaps._base.lazy_compilation import Kernel

# in one process: kernels of the tests' own --------------------------------------------------------------------------


def _inverse(x):
    return 1.0 / x


def _twice_inverse(x):
    return 2.0 * inverse(x)


inverse = jit(_inverse)


def cheap(*_):
    return 0.1


@pytest.fixture
def patient(tmp_path, monkeypatch):
    """The state of a fresh process with an empty cache."""
    monkeypatch.setattr(kernel_cache, "folder", lambda: str(tmp_path))
    monkeypatch.setattr(lazy_compilation.policy, "is_lazy", True)
    monkeypatch.setattr(lazy_compilation.time_spent, "seconds", 0.0)
    monkeypatch.setattr(lazy_compilation.policy, "strict", 0)
    return tmp_path


def compiled(kernel):
    return type(kernel) is Kernel and len(kernel.signatures) == 1


def test_a_cheap_call_runs_as_python_and_is_counted(patient):
    kernel, before = jit(_twice_inverse, cost=cheap), len(inverse.signatures)
    assert kernel(0.7) == 2 / 0.7 and kernel(0.3) == 2 / 0.3
    assert (
        isinstance(kernel, lazy_compilation.LazyKernel) and not kernel.signatures and len(inverse.signatures) == before
    )
    assert lazy_compilation.time_spent.seconds == kernel.seconds == 0.2


def test_a_form_runs_in_place_of_the_text(patient):
    kernel = jit(_twice_inverse, cost=cheap, python=lambda x: np.float64(17.0))
    assert kernel(0.7) == 17.0
    lazy_compilation.compile_eagerly()
    assert kernel(0.7) == 2 / 0.7 and compiled(kernel)


@pytest.mark.parametrize("reason", ["one call", "all calls", "settled", "found"])
def test_it_is_compiled_for_good(patient, monkeypatch, reason):
    if reason == "found":
        jit(_twice_inverse)(0.7)
    kernel = jit(_twice_inverse, cost=lambda x: x)
    if reason == "settled":
        lazy_compilation.compile_eagerly()
    if reason == "all calls":
        monkeypatch.setattr(lazy_compilation, "LAZY_LIMITS", lazy_compilation.LazyLimits(max_ratio=0.5 / 3.0))
        for x in (0.2, 0.2, 0.2):
            kernel(x)
            assert isinstance(kernel, lazy_compilation.LazyKernel)
    assert kernel(0.4 if reason == "one call" else 0.2) == 2 / (0.4 if reason == "one call" else 0.2)
    assert compiled(kernel)
    assert sum(kernel.stats.cache_hits.values()) == (reason == "found")


@pytest.mark.parametrize("how", ["a block", "a call"])
def test_equal_calls_have_equal_digits_where_that_is_asked_for(how, patient, monkeypatch):
    """The form differs from the text by more than rounding here; without, it is machine code after some calls."""
    monkeypatch.setattr(lazy_compilation, "LAZY_LIMITS", lazy_compilation.LazyLimits(max_ratio=0.5 / 3.0))
    before, kernel = jit(_twice_inverse, cost=cheap, python=lambda x: 17.0), None
    assert {before(0.7) for _ in range(100)} == {17.0, 2 / 0.7}
    with lazy_compilation.reproducible() if how == "a block" else nullcontext(lazy_compilation.reproducible()):
        kernel = jit(lambda x: 3.0 / x, cost=cheap, python=lambda x: 17.0)
        assert {kernel(0.7) for _ in range(100)} == {3.0 / 0.7}
    assert lazy_compilation.is_lazy() == (how == "a block")
    with lazy_compilation.reproducible():
        lazy_compilation.compile_eagerly()  # for good
    assert not lazy_compilation.is_lazy()


def test_machine_code_of_other_types_leaves_a_kernel_cold(patient):
    kernel = jit(_twice_inverse, cost=cheap)
    kernel.compile((lazy_compilation.typeof(2),))
    assert kernel(0.5) == 4.0 and isinstance(kernel, lazy_compilation.LazyKernel)
    assert kernel(2) == 1.0 and type(kernel) is Kernel


def test_arithmetic_that_python_refuses_is_that_of_machine_code(patient):
    kernel = jit(_twice_inverse, cost=cheap)
    assert kernel(0.0) == math.inf and compiled(kernel)


def test_a_form_divides_by_zero_as_machine_code_does(patient):
    """Without a warning, which is an error here."""
    kernel = jit(_twice_inverse, cost=cheap, python=lambda x: 2.0 / np.float64(x))
    assert kernel(0.0) == math.inf and isinstance(kernel, lazy_compilation.LazyKernel)


def test_a_kernel_survives_pickling(patient):
    kernel = jit(_twice_inverse, cost=cheap)
    kernel(0.7)
    assert pickle.loads(pickle.dumps(kernel))(0.7) == 2 / 0.7


# in processes of their own ------------------------------------------------------------------------------------------

START = """
import hashlib, threading
import numpy as np, overlaps as ov
from overlaps._base import jit as compiling, lazy_compilation

def digits(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in arrays)).hexdigest()

def two(activation=ov.erf, **rest):
    m = ov.committee_machine(2, 2, activation=activation, eta=0.5, **rest)
    return m, ov.State.from_overlaps(m, Q=[[.5, .0], [.0, .4]], R=[[.1, .02], [.03, .12]], T=np.eye(2))

def one(rule=ov.rules.perceptron(), **rest):
    m = ov.learner(rule, eta=0.3, **rest)
    return m, ov.State.from_overlaps(m, Q=[[.5]], R=[[.2]], T=[[1.1]])

def unit():
    m = ov.committee_machine(1, 1, activation=ov.linear, eta=0.5)
    return m, ov.State.from_overlaps(m, Q=[[.5]], R=[[.2]], T=[[1.1]])

def manifold():
    m = ov.hidden_manifold(2, 1, ratio=0.5, nodes=3, eta=0.3)
    return m, m.random_start(N=60, rng=1)

def labelled():
    m = ov.gaussian_mixture(1, gram=[[[1.0, -1.0], [-1.0, 1.0]]], weights=[0.4, 0.6], labels=[1, -1], eta=0.3)
    return m, ov.State.from_overlaps(m, Q=[[0.7]], m=[[0.1, -0.1]])

def last(eta):
    return float(ov.solve(ov.committee_machine(2, 2, eta=eta), two()[1], (0, 3.0)).eps_g[-1])

def power(L=32):
    m = ov.committee_machine(2, 2, eta=0.2, spectrum=ov.power_law(beta=1.0, L=L))
    return m, m.random_start(N=100 * L, rng=2)
"""


def words(code, **environment):
    """What a fresh process prints."""
    env = {name: value for name, value in (os.environ | environment).items() if value is not None}
    done = subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.split()


@pytest.fixture
def make_lazy(tmp_path):
    """Environment of a process with an empty cache."""
    return dict(OVERLAPS_JIT=None, NUMBA_CACHE_DIR=str(tmp_path), NUMBA_DISABLE_JIT="0")


FIRST = {
    "erf": "*two(), (0, 100.0)",
    "relu": "*two(ov.relu), (0, 30.0)",
    "a function": "*two(ov.Activation.from_function(np.sin, np.cos, name='sine'), gradient_flow=True), (0, 3.0)",
    "power law": "*power(), (0, 1e4)",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIRST)
def test_the_first_curve_compiles_nothing_and_is_right(name, make_lazy):
    """Within rounding of the compiled one; two such processes give the same bits and count the same seconds."""
    code = f"""
t = ov.solve({FIRST[name]})
assert t.success
print(digits(t.Q, t.R, t.eps_g), compiling.watch.count, lazy_compilation.time_spent.seconds, t.nfev, *t.Q[-1].ravel())
"""
    one, two, warm = words(code, **make_lazy), words(code, **make_lazy), words(code, OVERLAPS_JIT="always")
    assert one == two and one[1] == "0"
    assert float(one[2]) > 0 == float(warm[2])
    np.testing.assert_allclose([float(x) for x in one[4:]], [float(x) for x in warm[4:]], rtol=0, atol=1e-12)
    assert abs(int(one[3]) - int(warm[3])) <= 0.01 * int(warm[3])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["erf", "power law"])
def test_who_compiles_has_the_digits_of_who_finds(name, make_lazy):
    """Machine code calls the copies of functions that lie in it, not those that were compiled or loaded before."""
    code = f"t = ov.solve({FIRST[name]})\nprint(digits(t.Q, t.R, t.eps_g), compiling.watch.count)"
    (one, compiled), (two, none) = (words(code, **make_lazy | {"OVERLAPS_JIT": "always"}) for _ in range(2))
    assert one == two and int(compiled) > 20 and none == "0"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_digits_do_not_depend_on_what_was_compiled_first(make_lazy, tmp_path):
    """A batch has kernels with fast sums and shares helpers and functions with the single curve, which has others."""
    code = """
def curve():
    t = ov.solve(*two(), (0, 100.0))
    return digits(t.Q, t.R, t.eps_g)
def batch():
    models = [ov.committee_machine(2, 2, eta=eta) for eta in np.linspace(0.2, 0.8, 70)]
    t = ov.solve_many(models, two()[1], [0.0, 10.0, 50.0, 100.0], simd=True)
    return digits(t.Q, t.R, t.eps_g)
calls = {"curve": curve, "batch": batch}
found = {name: calls[name]() for name in ORDER}
print(found["curve"], found["batch"])
"""
    found = []
    for folder, order in (("a", ["curve", "batch"]), ("b", ["batch", "curve"]), ("b", ["curve", "batch"])):
        environment = make_lazy | {"OVERLAPS_JIT": "always", "NUMBA_CACHE_DIR": str(tmp_path / folder)}
        found.append(words(code.replace("ORDER", repr(order)), **environment))
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["erf", "power law"])
def test_two_processes_and_a_hundred_calls_agree_to_the_last_bit(name, make_lazy):
    """One process compiles and one finds; calls before change nothing. Without, the digits change on the way."""
    times = "np.linspace(0.0, 50.0, 51)"
    code = f"""
{{before}}
def one():
    t = ov.solve({FIRST[name].rpartition("(")[0]}{times})
    return digits(t.Q, t.R, t.eps_g)
print(*{{{{one() for _ in range(100)}}}})
"""
    strict = "ov.reproducible()"
    both = f"ov.solve({FIRST[name]})\n{strict}"
    compiles, finds, later = (words(code.format(before=x), **make_lazy) for x in (strict, strict, both))
    assert compiles == finds == later and len(compiles) == 1
    assert words(code.format(before=""), **make_lazy | {"OVERLAPS_JIT": "always"}) == compiles


@pytest.mark.slow
def test_the_import_touches_no_kernel(make_lazy):
    code = """
from overlaps._base import jit
from numba.core.dispatcher import Dispatcher
from overlaps.flow import flow
spent, kind = lazy_compilation.time_spent.seconds, lazy_compilation.LazyKernel
print(compiling.watch.count, spent, "_fingerprint" in vars(flow), isinstance(flow, kind))
"""
    assert words(code, **make_lazy) == ["0", "0.0", "False", "True"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("n", [2, 8])
def test_threads_of_a_cold_process_switch_together(n, make_lazy):
    """So many curves at once, long enough that all go on in compiled code: each is right."""
    code = """
lazy_compilation.LAZY_LIMITS, found = lazy_compilation.LazyLimits(max_ratio=0.003 * n), []
barrier = threading.Barrier(n)
def work(i):
    barrier.wait()
    found.append(ov.solve(*two(ov.linear), (0, 60.0)))
threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
[t.start() for t in threads]; [t.join() for t in threads]
assert len(found) == n and all(t.success for t in found) and compiling.watch.count > 10
Q = np.array([t.Q[-1] for t in found])
print(np.ptp(Q, axis=0).max(), *Q[0].ravel())
"""
    spread, *Q = map(float, words(f"n = {n}{code}", **make_lazy))
    assert spread < 1e-12
    exact = [float(x) for x in words("print(*ov.solve(*two(ov.linear), (0, 60.0)).Q[-1].ravel())")]
    np.testing.assert_allclose(Q, exact, rtol=0, atol=1e-12)


HAPPENS = {
    "a fork": """
thread = threading.Thread(target=curve)
thread.start()
while not compiling.watch.depth:
    time.sleep(0.01)
time.sleep(0.5)
pid = os.fork()
if pid == 0:
    os._exit(0 if curve().success else 1)
thread.join()
assert os.waitpid(pid, 0)[1] == 0
""",
    # gaps that grow, so that all is compiled in the end
    "Ctrl-C": """
signal.signal(signal.SIGINT, signal.default_int_handler)
done, pressed, caught = False, 0, 0
def press(gap=0.02):
    global pressed
    while not done:
        time.sleep(gap := 1.15 * gap)
        if compiling.watch.depth:
            pressed += 1
            os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press, daemon=True).start()
while not done:
    try:
        done = curve().success
    except KeyboardInterrupt:
        caught += 1
assert pressed > 5 and caught > 0
""",
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX")
@pytest.mark.parametrize("happens", HAPPENS)
def test_compilation_survives(happens, make_lazy):
    """A process that is forked while a thread compiles; a key that is pressed again and again in the main thread.

    Pressed between LLVM and the Python around it, the key ended the process, or compiled code was lost.
    """
    code = f"""
import os, signal, time, warnings
warnings.simplefilter("ignore")  # of forks with threads; of what was interrupted
def curve():
    return ov.solve(*two(ov.linear), (0, 3.0))
{HAPPENS[happens]}
print(*curve().Q[-1].ravel())
"""
    found = words(code, **make_lazy | {"OVERLAPS_JIT": "always"})
    exact = [float(x) for x in words("print(*ov.solve(*two(ov.linear), (0, 3.0)).Q[-1].ravel())")]
    np.testing.assert_allclose([float(x) for x in found], exact, rtol=0, atol=1e-13)


# Every public function that integrates, in threads that begin at once as the first thing in a process.  Each group is a
# process; what its functions compile, or read from the disk, they do not share.
GROUPS = {
    "dop853": [
        "ov.solve(*two(), (0, 3.0)).eps_g",
        "ov.solve_many([two()[0]] * 3, two()[1], [0.0, 3.0], threads=2).eps_g",
    ],
    "structured": [
        "ov.solve(*power(), (0, 1e3), method='structured').eps_g",
        "ov.solve_many([power()[0]] * 3, power()[1], [0.0, 1e3]).eps_g",
        "ov.fixed_point(two()[0], ov.solve(*two(), (0, 300.0))[-1]).state.q",
    ],
    "batch": [
        "ov.solve_many([power()[0]] * 4, power()[1], [0.0, 1e3], method='DOP853', threads=2).eps_g",
        "ov.solve(*two(ov.relu), (0, 3.0), certify=True).eps_g",
    ],
    "schedules": [
        "ov.schedule_gradient(*two(), ov.Schedule([0, 2, 4], [1.0, 0.8, 0.5]), 4.0)[1]",
        "ov.optimal_schedule(*two(), 2.0, knots=4, tol=1e-2).eta",
        "ov.greedy_schedule(*two(ov.linear), 2.0, knots=4).values",
    ],
    "finite size": [
        "ov.fluctuations(ov.solve(*two(), [0.0, 2.0]), N=1000).std('eps_g')",
        "ov.simulate(two()[0], N=20, alpha=[0, 2], rng=1, start=two()[1], method='direct').Q",
        "ov.simulate(power()[0], N=320, alpha=[0, 1], rng=1, method='reduced').Q",
    ],
    "sweep": [
        "ov.sweep(last, {'eta': [.3, .4, .5, .6]}, executor=pool).array()",
        "ov.solve(*two(ov.tanh), (0, 2.0)).eps_g",
    ],
    "rules": [
        "ov.solve(*one(ov.rules.logistic(2.0)), [0.0, 3.0]).eps_g",
        "ov.solve(*one(ov.rules.feedback_alignment([0.7], [0.8]), eta_theta=0.2), [0.0, 3.0]).v",
        "ov.simulate(one(ov.rules.perceptron())[0], N=20, alpha=[0, 2], rng=1, start=one(ov.rules.hebb())[1]).Q",
    ],
    "tasks": [
        "ov.solve(ov.Stages([two()[0]] * 2, until=[1.0, 3.0]), two()[1], [0.0, 3.0]).eps_g",
        "ov.solve(ov.Mixed([two()[0], two(v_star=[0.4, 0.7])[0]], [0.3, 0.7]), two()[1], [0.0, 3.0]).eps_g",
        "ov.solve(*two(teacher_activation=ov.sign), [0.0, 3.0]).eps_g",
    ],
    "theory": [
        "ov.theory.escape(two()[0], 'random', 1000, points=64).kappa",
        "ov.solve(*two(), np.linspace(0, 60, 61)).plateaus()[0].rates",
        "ov.theory.linear.multi_pass(*unit(), 2.0, 3).Q",
    ],
    "data": [
        "ov.solve(*manifold(), [0.0, 3.0]).eps_g",
        "ov.solve(*labelled(), [0.0, 3.0]).eps_g",
        "ov.theory.stationary_points(ov.committee_machine(1, 1, eta=0.5), starts=4)[0].state.q",
    ],
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("threads", [2, 8])
@pytest.mark.parametrize("group", GROUPS)
def test_threads_of_a_fresh_process_find_compiled_code(group, threads):
    code = f"""
import warnings
warnings.simplefilter("ignore")  # threads that suppress warnings put back the filters of each other
from concurrent.futures import ThreadPoolExecutor
pool, n = ThreadPoolExecutor({threads}), {threads}
barrier = threading.Barrier(n)
def begin(job, i):
    barrier.wait()
    return eval(job)
for job in {GROUPS[group]!r}:
    with ThreadPoolExecutor(n) as workers:
        found = [digits(x) for x in workers.map(lambda i: begin(job, i), range(n))]
    alone = digits(eval(job))
    print(len({{*found, alone}}))
"""
    assert words(code, OVERLAPS_JIT="always") == ["1"] * len(GROUPS[group])
