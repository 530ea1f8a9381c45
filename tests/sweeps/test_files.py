"""Sweeps in files: what comes back equals what was kept; what no file holds is named."""

import warnings

import numpy as np
import pytest

import overlaps as ov


def curve(eta, K):
    if K == 3:
        raise KeyError("no three")
    model = ov.committee_machine(K, 1, eta=eta)
    return ov.solve(model, model.random_start(N=50, rng=1), (0.0, 0.5))


def mixed(x):
    return x, np.arange(3.0) * x, {"text": "t", "list": [1, None, True, [2.5]]}, 1j * x, np.float32(x)


def test_results_and_failures_come_back(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        kept = ov.sweep(curve, {"eta": [0.2, np.float64(0.5)], "K": [1, 3, 2]})
    kept.save(tmp_path / "grid")
    found = ov.load(tmp_path / "grid.npz")
    assert found.shape == kept.shape == (2, 3) and found.points == kept.points and found.function == "curve"
    assert found[1, 2] == kept[1, 2] and found[0, 0].model == kept[0, 0].model and not found.success
    assert list(found.errors) == list(kept.errors) == [1, 4] and found[0, 1] is found.errors[1]
    assert str(found.errors[1]) == "KeyError: 'no three'" and found.message.startswith("4 of 6 points of curve")
    ends = (lambda traj: traj.eps_g[-1],)
    np.testing.assert_array_equal(found.array(*ends), kept.array(*ends))


def test_values_of_any_plain_kind_come_back(tmp_path):
    kept = ov.sweep(mixed, [{"x": 1.0}, {"x": float("nan")}, {"x": -3}])
    ov.save(kept, tmp_path / "points.npz")
    found = ov.load(tmp_path / "points.npz")
    assert found == kept and found.dims == ("point",)
    for one, other in zip(found.values, kept.values, strict=True):
        assert [type(x) for x in one] == [type(x) if not isinstance(x, complex) else np.complex128 for x in other]
    assert found != ov.sweep(mixed, [{"x": 1.0}, {"x": 2.0}, {"x": -3}])


def test_keys_that_look_like_places_do_not_mix(tmp_path):
    model = ov.committee_machine(1, 1, eta=0.1)
    start = model.random_start(N=20, rng=1)
    kept = ov.sweep(
        lambda x: {"a.b": np.full(2, x), "a": {"b": np.full(2, -x)}, "a/q": np.ones(1), "../s": [start, start.q]},
        {"x": [1.0, 2.0]},
    )
    kept.save(tmp_path / "keys.npz")
    assert ov.load(tmp_path / "keys.npz") == kept
    assert ov.load(tmp_path / "keys.npz")[1]["a.b"][0] == 2


def test_what_no_file_holds_is_named_before_anything_is_written(tmp_path):
    kept = ov.sweep(lambda x: [1.0, {"it": object() if x == 2 else x}], {"x": [1, 2]})
    with pytest.raises(ValueError, match=r"values\[1\]\.1\.it = <object .*checkpoint="):
        kept.save(tmp_path / "objects.npz")
    closures = ov.sweep(
        lambda K: ov.closure(ov.committee_machine(1, 1, eta=0.1), [[0.5]], [[0.1]], [[1.0]]), {"K": [1]}
    )
    with pytest.raises(ValueError, match=r"values\[0\] = Closure"):
        closures.save(tmp_path / "closures.npz")
    assert not list(tmp_path.iterdir())
