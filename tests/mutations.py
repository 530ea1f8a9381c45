"""Small faults that the tests must catch, one line each.

    python tests/mutations.py --list
    python tests/mutations.py --all
    python tests/mutations.py relu_relu newton_tolerance

Each fault is written into a copy of the package in a temporary folder, and the tests named beside it must fail there.
The long suite tries a random few (``tests/whole/test_mutations.py``).  A new formula deserves a line here if a fault
in it could hide in symmetric settings.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "overlaps"
# pytest on whatever PYTHONPATH holds; 9 if that is not the copy
RUN = """
import sys
from pathlib import Path
import overlaps, pytest
copy, *tests = sys.argv[1:]
if Path(overlaps.__file__).parent != Path(copy).resolve():
    sys.exit(9)
sys.exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]))
"""
FAILED = 1  # pytest's code for tests that ran and failed; a test that cannot be collected catches nothing


class Fault(NamedTuple):
    """One line of a file under src/overlaps, and the tests (under tests/) that fail without it.

    A kernel with a fault runs as plain Python, which costs less than to compile it and all that calls it, unless the
    tests need it ``compiled``: without a fault they pass as plain Python, too (``NUMBA_DISABLE_JIT=1``).
    """

    file: str
    old: str
    new: str
    tests: str
    compiled: bool = False


PLOTS = "results/test_plotting.py::"
BDF = "integrators/test_bdf.py::"
FLUCTUATIONS = "finite_size/test_fluctuations.py::"
FAULTS = {
    # data seen again
    "contour_under_a_penalty": Fault(
        "theory/linear/data_set.py", "(2 / step - self.kappa - self.edge", "(2 / step - self.edge",
        "theory/linear/test_data_set.py::test_descent_under_a_strong_penalty_follows_marchenko_and_pastur",
    ),
    # fluctuations at finite N
    "map_and_flow": Fault(
        "finite_size/unknowns.py", "- J[:n, :n] @ velocity / 2", "", FLUCTUATIONS + "test_golden_curves",
    ),
    "free_parts_of_blocks": Fault(
        "finite_size/noise.py", "if L > 1:", "if False:", FLUCTUATIONS + "test_covariance_of_a_step_is_that_of_samples",
    ),
    "batches_outside_the_increment": Fault(
        "finite_size/noise.py", "return D / b", "return D / b**2",
        FLUCTUATIONS + "test_covariance_of_a_step_is_that_of_samples",
    ),
    "batches_inside_the_increment": Fault(
        "finite_size/noise.py", "self.s * self.p / b", "self.s * self.p",
        FLUCTUATIONS + "test_covariance_of_a_step_is_that_of_samples",
    ),
    "stationary_noise_of_the_selection": Fault(
        "theory/quadratic/selection.py", "noise_of_steps(u) * np.exp(-2 * gain)",
        "noise_of_steps(stable) * np.exp(-2 * rate * alpha)", "theory/quadratic/test_selection.py::test_golden_numbers",
    ),
    "distances_three_percent_off": Fault(
        "theory/quadratic/selection.py", "float(self._distances.mean())", "float(1.03 * self._distances.mean())",
        "theory/quadratic/test_selection.py::test_law_of_sgd_to_three_percent",
    ),
    "noise_of_the_plateau_alone": Fault(
        "theory/escape_time.py", "(G @ D[0] @ G.T)", "(0 * G @ D[0] @ G.T)",
        "theory/test_escape_time.py::test_law_from_a_symmetric_start",
    ),
    "random_teachers_stand_still": Fault(
        "finite_size/unknowns.py", "+= u.s**2 * self.B[k, other]", "+= 0 * self.B[k, other]",
        FLUCTUATIONS + "test_random_starts_and_teachers",
    ),
    # what is drawn, estimated or seldom reached, where a fault has hidden before
    "plotted_curve": Fault(
        "results/plotting/units.py", "ax.plot(alpha, curve, **style)", "ax.plot(alpha, 2 * curve, **style)",
        PLOTS + "test_every_line_is_its_own_curve",
    ),
    "plotted_label": Fault(
        "results/plotting/units.py", '$R_{{{i + 1}{m + 1}}}$"', '$R_{{{m + 1}{i + 1}}}$"',
        PLOTS + "test_every_line_is_its_own_curve",
    ),
    "plotted_band": Fault(
        "results/plotting/units.py", "[0.16, 0.84]", "[0.25, 0.75]", PLOTS + "test_bands_lie_between_their_quantiles",
    ),
    "nearest_saddle": Fault(
        "stability/plateaus.py", "(1 + ALIKE) * nearest", "nearest", "test_plateaus.py::test_shoulders_and_neighbours",
    ),
    "teachers_of_a_film": Fault(
        "results/plotting/movie.py", 'matrices["R"][..., teachers]', 'matrices["R"]',
        "results/test_movie.py::test_frames_are_the_overlaps_of_their_times",
    ),
    "first_below_a_level": Fault(
        "results/curves.py", "slice(max(i - 2, 0), i + 2)", "slice(i - 1, i + 1)",
        "test_plateaus.py::test_the_first_time_below_a_level",
    ),
    "plotted_error_bar": Fault(
        "results/plotting/comparison.py", "scaled, relative * scaled,", "scaled, 2 * relative * scaled,",
        PLOTS + "test_error_bars_are_those_of_a_variance",
    ),
    "newton_matrix_block_sizes": Fault(
        "flow/_newton.py", "QC[i, j] = dot(x, p)", "QC[i, j] = dot(x, np.full(L, 1.0 / L))",
        BDF + "test_structured_solve_knows_the_sizes_of_the_blocks",
    ),
    "record_in_the_last_step": Fault(
        "integrators/run.py", "(self.times > self.alpha[-1]) &", "(self.times > t) &",
        BDF + "test_no_record_in_the_last_step_is_lost",
    ),
    "record_where_a_run_stops": Fault(
        "integrators/run.py", "if (end or self.every_step) and t not in", "if self.every_step and t not in",
        "test_solve.py::test_stop_at_a_level_of_the_error",
    ),
    "newton_tolerance": Fault(
        "integrators/bdf.py", "NEWTON_TOLERANCE = 0.01", "NEWTON_TOLERANCE = 1.0",
        BDF + "test_accepted_steps_solve_the_implicit_equation",
    ),
    "subcritical_potential": Fault(
        "static/bayes/subcritical.py", "alpha / self.gamma * math.log", "alpha * math.log",
        "static/bayes/test_limits.py::test_potential_is_that_of_many_features",
    ),
    "cut_of_unsorted_readouts": Fault(
        "static/bayes/solutions.py", 'np.argsort(-self.teacher.v2, kind="stable")', "np.arange(k)",
        "static/bayes/test_teacher.py::test_cut_takes_the_strongest_features_wherever_they_stand",
    ),
    "perfect_solution_at_nu_k": Fault(
        "static/bayes/fixed_points.py", "if nu > k or not roots", "if nu >= k or not roots",
        "static/bayes/test_teacher.py::test_no_noise_and_as_many_samples_as_parameters",
    ),
    "thinned_transitions": Fault(
        "static/bayes/fixed_points.py", "if scan[2] and roots:", "if False:",
        "static/bayes/test_teacher.py::test_thinned_transitions_are_looked_at_again",
    ),
    "noise_of_the_marginal_mode": Fault(
        "theory/linear/eigenmodes.py", "np.where(standing, t, -np", "np.where(standing, 0.0, -np",
        "theory/linear/test_modes.py::test_noise_feeds_a_marginal_mode_for_ever",
    ),
    "secular_root_near_zero": Fault(
        "theory/linear/_secular.py", "around = D[0] > 0 and", "around = D[0] < 0 and",
        "theory/linear/test_modes.py::test_last_mode_keeps_its_digits_at_the_threshold",
    ),
    "residual_of_the_plateau": Fault(
        "theory/plateau.py", "if not error <= RESIDUAL", "if False and not error <= RESIDUAL",
        "theory/test_plateau.py",
    ),
    "rounding_floor": Fault(
        "flow/closure.py", "(np.sum(w * size, axis=1) + labels) ** 2", "np.sum((w * size) ** 2, axis=1)",
        "test_solve.py::test_the_floor_sums_amplitudes_before_it_squares",
    ),
    "at_from_a_late_record": Fault(
        "results/trajectory.py", "max(int(np.argmin(np.isnan(late))) - 1, 0)", "int(np.argmin(np.isnan(late)))",
        "test_solve.py::test_at_goes_back_to_where_the_overlaps_hold_the_differences",
    ),
    "error_of_the_divergence": Fault(
        "manifold/latents.py", "variance += p**2 * log_ratio", "variance += p * log_ratio",
        "manifold/test_latents.py::test_error_of_the_estimated_divergence",
    ),
    "undamped_newton": Fault(
        "stability/fixed_points.py", "< (1 - 0.25 * damping) * speed", "< np.inf",
        "stability/test_stability.py::test_newton_steps_are_damped",
    ),
    "letters_of_neurons": Fault(
        "static/spiked/simulation.py", 'np.arange(p), side="right"', 'np.arange(p), side="left"',
        "static/spiked/test_simulation.py::test_sizes_of_blocks",
    ),
    "interpolated_records_of_compiled_steps": Fault(
        "integrators/_bdf.py", "later, clock[H], time, row", "later, later - clock[BEFORE], time, row",
        BDF + "test_compiled_steps_are_those_of_scipy", compiled=True,
    ),
    "rates_after_a_jump_in_the_step_before_it": Fault(
        "integrators/_bdf.py", "work, min(t_new, clock[EDGE]), new", "work, t_new, new",
        BDF + "test_compiled_steps_are_those_of_scipy", compiled=True,
    ),
    "teachers_put_back": Fault(
        "flow/cone.py", "(new[:, K:, K:] - old[:, K:, K:]) / 2", "(new[:, K:, K:] - old[:, K:, K:])",
        "flow/test_cone.py::test_the_way_back_is_short_and_keeps_norms_and_teachers",
    ),
    "rank_of_a_gradient_flow": Fault(
        "flow/cone.py", "if flat and system.model.gradient_flow", "if not flat and system.model.gradient_flow",
        "flow/test_cone.py::test_a_student_along_its_teacher_stays_there_and_its_run_says_that_this_is_unstable",
    ),
    "average_over_equal_students": Fault(
        "models/start.py", "return self.P @ A @ self.P, self.P @ B", "return A, self.P @ B",
        "flow/test_twins.py::test_equal_students_learn_as_one",
    ),
    "readouts_of_opposite_students": Fault(
        "models/start.py", "v[..., i] * self.sign_v", "v[..., i] * self.sign",
        "flow/test_twins.py::test_equal_students_learn_as_one",
    ),
    # inputs in classes
    "ratio_of_a_class": Fault(
        "activations/_classes.py", "B[g * K + k, j - K] -= eta * factor * H[k, j]",
        "B[g * K + k, j - K] -= eta * pi[c] * H[k, j]",
        "models/test_mixture.py::test_three_clusters_with_covariances_of_their_own",
    ),
    "variance_of_the_drift": Fault(
        "activations/_classes.py", "A[g * K + k, j] -= eta * factor * H[k, j]",
        "A[g * K + k, j] -= eta * pi[c] * H[k, j]",
        "models/test_mixture.py::test_three_clusters_with_covariances_of_their_own",
    ),
    "variance_of_the_noise": Fault(
        "activations/_classes.py", "C[g * K + k, j] += factor * Cc[k, j]", "C[g * K + k, j] += pi[c] * Cc[k, j]",
        "models/test_mixture.py::test_three_clusters_with_covariances_of_their_own",
    ),
    "weights_of_the_classes": Fault(
        "activations/_classes.py", "eps_g += pi[c] * own_eps", "eps_g += own_eps / classes",
        "models/test_mixture.py::test_three_clusters_with_covariances_of_their_own",
    ),
    "weights_of_the_forces": Fault(
        "activations/_classes.py", "-eta * pi[c] * slope[k]", "-eta / classes * slope[k]",
        "models/test_mixture.py::test_three_clusters_with_covariances_of_their_own",
    ),
    "eigenvalue_before_a_centroid": Fault(
        "models/model.py", "np.ones((s.size, self.C))", "np.tile(s, self.C)",
        "simulators/test_classes.py::test_sgd_follows_the_cluster_equations",
    ),
    "teachers_beside_the_centroids": Fault(
        "models/mixture.py", "gram(record.tau, record.h, self.gram)", "gram(record.tau, 0 * record.h, self.gram)",
        "models/test_mixture.py::test_three_clusters_with_covariances_of_their_own",
    ),
    "means_of_other_groups": Fault(
        "activations/_classes.py", "mu[i] += S[g * rows + i, n + c]", "mu[i] += S[i, n + c] / groups",
        "models/test_mixture.py::test_three_clusters_with_covariances_of_their_own",
    ),
    "ratios_of_the_first_group": Fault(
        "flow/_flow.py", "at = group_of(l, p) * K", "at = 0",
        "models/test_mixture.py::test_velocities_where_variances_differ_by_eigenspace",
    ),
    "classes_of_the_first_model": Fault(
        "integrators/many.py", "[*map(bind, models)] if first.C else ", "",
        "test_solve_many.py::test_what_a_batch_of_classes_knows",
    ),
    "side_of_a_leaky_unit": Fault(
        "activations/_class_relu.py", "(w[k] if s > 0.0 else 0.0)", "w[k]",
        "activations/test_classes.py::test_kinks_against_quadrature_on_either_side",
    ),
    "mean_of_a_tilted_field": Fault(
        "activations/_classes.py", "m[i] -= row[i] * mean / s", "m[i] -= row[i] * mean",
        "activations/test_classes.py::test_golden_numbers",
    ),
    "means_given_two_relu_fields": Fault(
        "activations/_class_relu.py", "m[o] = mu[others[o]] + a[o] * x + b[o] * t",
        "m[o] = mu[others[o]] + a[o] * x - b[o] * t", "activations/test_classes.py::test_golden_numbers",
    ),
    # formulas and kernels
    "erf_erf_strong_correlation": Fault(
        "gaussian/two_point.py", "angle = math.atan2(sab, root)", "angle = math.atan2(sab, al)",
        "gaussian/test_two_point.py",
    ),
    "erf_erf_slopes": Fault(
        "gaussian/two_point.py", "c, -c * sab / al, -c * sab / bl", "c, -c * sab / bl, -c * sab / al",
        "gaussian/test_two_point.py",
    ),
    "relu_relu": Fault(
        "gaussian/two_point.py", "(s + sab * angle)", "(s - sab * angle)", "gaussian/test_two_point.py",
    ),
    "relu_four_fields": Fault(
        "activations/_relu.py", "total = r[c, d] * P4 + s[c, d]", "total = r[c, d] * P4 - s[c, d]",
        "activations/test_relu.py::test_I4_golden",
    ),
    "quadratic_C": Fault(
        "activations/_quadratic.py", "total += 2 * SH[k, i] * S[i, j]", "total += SH[k, i] * S[i, j]",
        "activations/test_closure.py",
    ),
    "erf_tilt": Fault(
        "activations/_erf.py", "ia, saa * ia * inverse", "ia, inverse", "activations/test_closure.py",
    ),
    "drift_of_few_blocks": Fault(
        "flow/_flow.py", "d = s[l] * d - (kappa + drift) * y[at]", "d = s[l] * d - kappa * y[at]",
        "integrators/test_drift.py::test_golden_numbers",
    ),
    "drift_of_many_blocks": Fault(
        "flow/_flow.py", "(kappa + drift) * values[l]", "kappa * values[l]",
        "integrators/test_drift.py::test_students_that_rest_lose_their_teachers",
    ),
    "drift_of_newton": Fault(
        "flow/_newton.py", "a[i] - decay - drift))", "a[i] - decay))",
        "integrators/test_drift.py::test_jacobian_and_newton_solve",
    ),
    "drift_of_exponential": Fault(
        "integrators/_exponential.py", "growth(s, a[i], decay - drift, h,", "growth(s, a[i], decay + drift, h,",
        "integrators/test_drift.py::test_exponential_step_is_exact_for_a_frozen_closure",
    ),
    "drift_of_adjoint": Fault(
        "protocols/_adjoint.py", "(drift * mu[l] if l < crossed else 0.0)", "0.0",
        "integrators/test_drift.py::test_gradient_by_the_schedule",
    ),
    "sign_of_students": Fault(
        "gaussian/two_point.py", "return 2 / PI * math.atan2(sab, root), c, -c * sab / saa, -c * sab / bl",
        "return 2 / PI * math.atan2(sab, root), c, -c * sab / bl, -c * sab / saa",
        "activations/test_sign.py::test_two_students",
    ),
    "share_of_a_head": Fault(
        "flow/mixed.py", "dv[readout] += share * (d - self._forgetting(task) * w_i[:K])",
        "dv[readout] += share * d - self._forgetting(task) * w_i[:K]", "test_mixed.py::test_equal_tasks_are_one_task",
    ),
    "noise_of_a_task": Fault(
        "simulators/mixed.py", "xi = self.noises[which] * (", "xi = self.noises[0] * (",
        "test_mixed.py::test_shares_of_nothing_and_one_reproduce_the_second_task",
    ),
    "moments_of_a_mixture": Fault(
        "finite_size/noise.py", "+= share * two", "+= share**2 * two",
        "test_mixed.py::test_fluctuations_mix_second_moments",
    ),
    "teachers_of_a_task": Fault(
        "flow/mixed.py", "self._vary(self.ratios if u is None", "self._vary(np.ones_like(self.ratios) if u is None",
        "test_mixed.py::test_eigenvalues_of_their_own",
    ),
    "eigenvalues_of_a_task": Fault(
        "flow/mixed.py", "dy[:end] += share * (part[:end].reshape(-1, L) * u).ravel()",
        "dy[:end] += share * part[:end]",
        "test_changing_inputs.py::test_stages_with_other_eigenvalues_are_the_same",
    ),
    "frozen_overlaps": Fault(
        "models/frozen.py", "np.concatenate([a * v1, (1 - a) * model.v_star])",
        "np.concatenate([a * v1, model.v_star])", "models/test_taught.py::test_an_independent_program",
    ),
    "amplitudes": Fault(
        "flow/mixed.py", "(AB @ (P @ S)[:, :rank]).ravel()", "(AB @ S[rank:, :rank]).ravel()",
        "models/test_low_rank.py::test_an_independent_program",
    ),
    "drift_of_sgd": Fault(
        "simulators/direct.py", "np.sqrt(1 - 2 * model.drift / N)", "np.sqrt(1 - model.drift / N)",
        "simulators/test_drift.py",
    ),
    "tracking_error": Fault(
        "theory/linear/eigenmodes.py", "(drift * s * t /", "(drift * t /",
        "integrators/test_drift.py::test_tracking_error_is_where_the_flow_ends",
    ),
    "noise_of_frozen_features": Fault(
        "theory/scaling/law.py", "np.sqrt(self.noise**2 + 2 * F)}", "np.sqrt(self.noise**2 + F)}",
        "theory/scaling/test_law.py::test_error_is_that_of_the_dense_equations",
    ),
    "border_of_a_phase": Fault(
        "theory/scaling/law.py", "twice <= 1 + self.beta", "twice <= 2 + self.beta",
        "theory/scaling/test_law.py::test_phases_have_the_exponents_of_the_exact_errors",
    ),
    "amplitude_of_the_steps": Fault(
        "theory/scaling/terms.py", "P**2 * steps, noise", "P * steps, noise",
        "theory/scaling/test_terms.py::test_errors_of_the_asymptote",
    ),
    "tail_under_a_floor": Fault(
        "theory/scaling/terms.py", "- tail * F0", "- 0 * tail * F0",
        "theory/scaling/test_terms.py::test_frozen_features_are_noise_to_the_others",
    ),
    "batch_in_the_second_moment": Fault(
        "theory/linear/eigenmodes.py", "(2 - (1 + 1 / B) * rate)", "(2 - 2 * rate)",
        "theory/scaling/test_law.py::test_finite_size_mean_is_the_recursion_and_the_mean_of_sgd",
    ),
    "rate_before_a_jump": Fault(
        "theory/scaling/schedules.py", "schedule(np.nextafter(t[jumps], -np.inf))", "schedule(t[jumps])",
        "theory/scaling/test_schedules.py::test_any_schedule_is_that_of_solve",
    ),
    "thirds_of_a_window": Fault(
        "theory/scaling/windows.py", "1.5 * np.ptp(slopes, axis=0)", "0.0 * np.ptp(slopes, axis=0)",
        "theory/scaling/test_fit.py::test_the_window_leaves_out_what_comes_before_and_after",
    ),
    "stage_at_a_switch": Fault(
        "models/stages.py", 'alpha), side="right")', 'alpha), side="left")',
        "models/test_stages.py::test_a_switch_belongs_to_the_stage_that_begins_there",
    ),
    "stage_tau": Fault(
        "models/stages.py", "tau = ratio**2 * tau", "tau = ratio * tau",
        "results/test_staged.py::test_three_stages_against_solutions_one_after_the_other",
    ),
    "head_after_its_stage": Fault(
        "results/composed.py",
        "self.parts[i - self._first].v[..., -1:, :]", "self.parts[i - self._first].v[..., :1, :]",
        "results/test_staged.py::test_three_stages_against_solutions_one_after_the_other",
    ),
    "weight_decay_of_q_in_few_blocks": Fault(
        "flow/_flow.py", "noise) - 2 * kappa * y[at]", "noise) - kappa * y[at]",
        "test_solve.py::test_weight_decay_alone_is_an_exponential",
    ),
    "weight_decay_of_q_in_many_blocks": Fault(
        "flow/_flow.py", "- 2 * kappa * values[l]", "- kappa * values[l]",
        "flow/test_flow.py::test_flow_is_the_matrix_equation",
    ),
    "weight_decay_of_q_of_many_units": Fault(
        "flow/_flow.py", "noise - 2 * kappa * y[at]", "noise - kappa * y[at]",
        "flow/test_flow.py::test_flow_of_many_units_is_the_matrix_equation",
    ),
    "noise_of_a_block": Fault(
        "flow/_flow.py", "s[l] * (d[l] + p[l] * noise)", "s[l] * d[l] + p[l] * noise",
        "flow/test_flow.py::test_flow_is_the_matrix_equation",
    ),
    "planes_of_inner_variables": Fault(
        "gaussian/_iterated.py", "        turn(breaks, used, e)  #", "        turn(breaks, 0, e)  #",
        "gaussian/test_iterated.py::test_three_planes_through_the_origin",
    ),
    "forces_without_the_left_inverse": Fault(
        "activations/_rule.py", "vectors[j, a] / math.sqrt(S[i, i] * values[a])",
        "vectors[j, a] / math.sqrt(S[i, i])", "activations/test_rule.py::test_phase_retrieval",
    ),
    "covariance_of_tokens": Fault(
        "activations/_rule.py", "+= r[a, b] * P[a", "+= (a == b) * P[a",
        "activations/test_tokens.py::test_golden_closures",
    ),
    "noise_of_other_patches": Fault(
        "activations/tokens.py", "2 * (T - 1) * eps_g", "2 * T * eps_g", "activations/test_tokens.py",
    ),
    "binomial_tail_of_an_episode": Fault(
        "activations/_tokens.py", "tail(least, T - 1, wrong)", "tail(least, T, wrong)",
        "activations/test_tokens.py::test_binomial_tails_of_an_episode",
    ),
    "count_of_other_tokens": Fault(
        "activations/_of_tokens.py", "chances[0] *= 1 - mean", "chances[0] *= 1 - mean * mean",
        "activations/test_tokens.py::test_forces_that_see_a_sum_over_other_tokens",
    ),
    "weights_of_a_lattice": Fault(
        "gaussian/iterated.py", "np.exp(-np.sum(points**2, axis=1) / 2)", "np.exp(-np.sum(points**2, axis=1) / 2.01)",
        "gaussian/test_iterated.py::test_lattices_integrate_waves_and_powers",
    ),
    "root_of_the_rest_of_tokens": Fault(
        "simulators/direct.py", "root.astype(x.dtype) @ x.reshape", "root.T.astype(x.dtype) @ x.reshape",
        "simulators/test_tokens.py::test_the_rest_of_the_tokens_is_a_wishart_matrix",
    ),
    "flips_of_adatron": Fault(
        "activations/_perceptrons.py", "return -p - m * angle,", "return -p - angle / math.pi,",
        "activations/test_rules.py::test_golden_numbers",
    ),
    "rate_of_a_rule_in_runs": Fault(
        "simulators/_force.py", "F[k] *= eta", "F[k] *= 1.0", "simulators/test_learners.py::test_sgd_follows_the_flow",
    ),
    "turn_of_later_samples": Fault(
        "simulators/_reduced.py", "x[t, e, later, j + 1] = cos * b - sin * a", "x[t, e, later, j + 1] = cos * b",
        "simulators/test_reduced.py", compiled=True,
    ),
    "minibatch_of_the_second_layer": Fault(
        "simulators/_sgd.py", "v[k] += dv[b, k] / (batch * N)", "v[k] += dv[b, k] / N", "simulators/test_direct.py",
        compiled=True,
    ),
    "eigenvalues_of_few_latents": Fault(
        "manifold/marchenko_pastur.py", "[[0.0], x / ratio]", "[[0.0], x * ratio]",
        "manifold/test_marchenko_pastur.py::test_nodes_are_those_of_large_feature_matrices",
    ),
    "late_coupling": Fault(
        "theory/late_time.py", "0.0, W / 8, 0.0]", "0.0, W / 4, 0.0]", "theory/test_late_time.py",
    ),
    "direction_of_the_spike": Fault(
        "static/spiked/one_step.py", "math.sqrt(h1_star**2 + h2_star / alpha0)", "math.sqrt(h1_star**2 + h2_star)",
        "static/spiked/test_features.py",
    ),
    "checksum_of_a_line": Fault(
        "sweeps/checkpoint.py", 'or check != b"%d}" % zlib.crc32(body)', "or not check", "sweeps/test_sweep.py",
    ),
    # what a mean of one, equal entries, one block, one chunk or no drift would hide
    "records_in_chunks_of_matrices": Fault(
        "finite_size/transport.py", "if (first + k + 1) % fine == 0:", "if (k + 1) % fine == 0:",
        "finite_size/test_fluctuations.py::test_chunks_of_matrices_are_transported_as_one",
    ),
    "eigenvalue_of_a_random_teacher": Fault(
        "finite_size/unknowns.py",
        "source[i, j] = source[j, i] = u.s**2 * dt",
        "source[i, j] = source[j, i] = u.s * dt",
        "finite_size/test_fluctuations.py::test_larger_inputs_with_smaller_weights_change_nothing",
    ),
    "decay_beside_the_force": Fault(
        "finite_size/unknowns.py", "- decay * (H + np.swapaxes(H, 1, 2))", "+ decay * (H + np.swapaxes(H, 1, 2))",
        "finite_size/test_fluctuations.py::test_means_of_linear_students_are_those_of_a_recursion",
    ),
    "eigenvalue_of_a_random_start": Fault(
        "finite_size/expansion.py",
        "np.where((a < K) & (b >= K), unknowns.s[:, None], 1.0)",
        "np.where(b >= K, unknowns.s[:, None], 1.0)",
        "finite_size/test_fluctuations.py::test_larger_inputs_with_smaller_weights_change_nothing",
    ),
    "greedy_rate_without_drift": Fault(
        "protocols/optimal.py", "dy[:crossed] -= self.model.drift", "dy[:crossed] += self.model.drift",
        "protocols/test_control.py::test_the_greedy_rate_knows_the_drift",
    ),
    "drift_in_implicit_steps": Fault(
        "protocols/control.py", "any(model.weight_decay) or model.drift)", "any(model.weight_decay))",
        "protocols/test_control.py::test_values_on_wide_spectra_are_those_of_the_solution",
    ),
    "eigenvalues_at_a_switch_backwards": Fault(
        "protocols/control.py", "pack(q, ratio * r, v if goes_on", "pack(q, r, v if goes_on",
        "protocols/test_stages.py::test_values_and_slopes_of_two_linear_tasks",
    ),
    "mean_error_over_tasks": Fault(
        "protocols/control.py", "integral, y = integral + area, states[-1]", "integral, y = area, states[-1]",
        "protocols/test_stages.py::test_values_and_slopes_of_two_linear_tasks",
    ),
    "upper_bound_of_eta": Fault(
        "protocols/optimal.py", "return low / model.eta, high / model.eta", "return low / model.eta, high",
        "protocols/test_control.py::test_the_upper_bound_is_one_of_eta",
    ),
    "square_of_eta_in_the_error_of_C": Fault(
        "activations/sums.py", "return 2 * weight**2 * np.sqrt", "return 2 * weight * np.sqrt",
        "activations/test_quadrature.py::test_the_error_of_a_sum_of_erf_falls_with_the_square_of_eta_and_bounds_that_of_C",
    ),
    "variance_of_a_polynomial_teacher": Fault(
        "activations/cones.py",
        "images.append((r - 1) * variance * images[r - 2])",
        "images.append((r - 1) * images[r - 2])",
        "activations/test_mixed.py::test_the_scale_of_a_polynomial_teacher_is_that_of_its_field",
    ),
    "rates_after_a_jump_in_python": Fault(
        "flow/system.py",
        "self.edge = np.nextafter(later[0], -np.inf) if later.size",
        "self.edge = later[0] if later.size",
        "integrators/test_schedules.py::test_jumps_cost_nothing_but_new_starts",
    ),
    "decay_of_norms_side_by_side": Fault(
        "flow/lanes.py",
        "dq[l] = -eta[l] * (g[l] + h[l]) - 2.0 * decay[l] * q[l]",
        "dq[l] = -eta[l] * (g[l] + h[l]) - decay[l] * q[l]",
        "integrators/test_lanes.py::test_lanes_are_solve_up_to_rounding", compiled=True,
    ),
    "curvature_of_erf_units": Fault(
        "activations/_erf.py", "w[i] * curvature / (1.0 + S[i, i])", "w[i] * curvature", "activations/test_closure.py",
    ),
    "rows_of_a_triangle_of_a_block": Fault(
        "flow/_flow.py", "ki += (K - one - k) * L if k < i else L", "ki += (K - one - k) * L if k < j else L",
        "flow/test_flow.py",
    ),
    "pairs_of_fields_side_by_side": Fault(
        "activations/_lanes.py", "(w[c, l] * w[d, l]) * _arcsine(x)", "(w[c, l] * w[c, l]) * _arcsine(x)",
        "integrators/test_lanes.py::test_closures_of_lanes_are_those_of_one_state",
    ),
    "second_layers_of_a_batch": Fault(
        "integrators/many.py",
        "*model.second_layers]) for f, (model, x)",
        "*first.second_layers]) for f, (model, x)",
        "test_solve_many.py::test_a_batch_is_what_solve_returns_one_by_one",
    ),
    "rate_of_stiffness_of_a_batch": Fault(
        "integrators/many.py", "2 * (model.eta * slowest[key] + decays[i])", "2 * (slowest[key] + decays[i])",
        "test_solve_many.py::test_a_batch_is_what_solve_returns_one_by_one",
    ),
    "overlaps_in_a_new_frame": Fault(
        "flow/differences.py",
        "(e - turn @ self.tau * inverse) @ rotation.T",
        "(e - turn @ self.tau * inverse) @ rotation",
        "flow/test_differences.py::test_a_new_frame_changes_no_overlap",
    ),
    "mean_eigenvalue_on_spheres": Fault(
        "flow/jacobian.py",
        "system.second_order * spectrum.mean * np.diag(system.C) / 2",
        "system.second_order * np.diag(system.C) / 2",
        "flow/test_flow.py::test_jacobian_is_the_derivative_of_the_flow",
    ),
    "stream_of_label_noise": Fault(
        "manifold/sgd.py",
        "self.noise * self.noise_rng.standard_normal(shape)",
        "self.noise * self.rng.standard_normal(shape)",
        "manifold/test_sgd.py::test_a_seed_is_one_run_whatever_is_drawn_at_once",
    ),
    "schedule_of_a_later_start": Fault(
        "simulators/direct.py", "Rates(model, N, np.rint(start.alpha * N), pace)", "Rates(model, N, 0, pace)",
        "simulators/test_schedules.py::test_a_run_goes_on_in_its_schedule",
    ),
    "width_of_a_degenerate_bulk": Fault(
        "landscape/curvature.py",
        "span = max(np.ptp(np.append(self.bulk, self.outliers)), 1e-300)",
        "span = max(np.ptp(self.bulk), 1e-300)",
        "landscape/test_hessian.py::test_density_of_outliers_is_their_number",
    ),
    "readouts_tell_students_apart": Fault(
        "stability/fixed_points.py", "if system.model.trains_v or np.ptp(start.v):", "if system.model.trains_v:",
        "stability/test_stability.py::test_equal_students_of_unequal_readouts_part",
    ),
    "readouts_of_students_at_infinity": Fault(
        "stability/critical.py",
        "students, targets = state.v**2 * np.diag(state.Q),",
        "students, targets = np.diag(state.Q),",
        "stability/test_stability.py::test_the_kind_does_not_hang_on_the_scale_of_a_unit",
    ),
    "samples_mix_principal_functions": Fault(
        "static/spiked/spectrum.py",
        "value += np.sum((f2[:-1] @ (law.weight * f2[-1]))",
        "value -= np.sum((f2[:-1] @ (law.weight * f2[-1]))",
        "static/spiked/test_spectrum.py::test_principal_functions_are_mixed_by_samples",
    ),
    "batch_of_the_closed_frontier": Fault(
        "theory/scaling/terms.py",
        "C = 2 * law.eta / law.batch_size * law.spectrum.s[0]",
        "C = 2 * law.eta * law.spectrum.s[0]",
        "theory/scaling/test_frontier.py::test_a_batch_at_a_rate_is_one_sample_at_a_smaller_rate",
    ),
    "shape_in_a_checkpoint": Fault(
        "sweeps/described.py", 'f"{value.dtype.str} {value.shape} "', 'f"{value.dtype.str} "',
        "sweeps/test_sweep.py::test_arrays_of_other_shapes_or_types_are_other_points",
    ),
    "teachers_of_a_batch": Fault(
        "results/batch.py", "-v_star[part, None]", "-v_star[:1, None]",
        "results/test_batch.py::test_each_teacher_has_an_error_of_its_own",
    ),
    "time_of_a_record_of_moments": Fault(
        "theory/cayley_hamilton/hierarchy.py",
        "self.T, self.v[i])), alpha=self.alpha[i])",
        "self.T, self.v[i])), alpha=0.0)",
        "theory/cayley_hamilton/test_hierarchy.py::test_a_solution_goes_on_from_a_record",
    ),
    "rounding_between_parallel_fields": Fault(
        "gaussian/shifted.py", "-PARALLEL), PARALLEL)", "-1.0), 1.0)",
        "gaussian/test_shifted.py::test_no_digits_are_lost_between_parallel_fields",
    ),
    "dimensions_beside_class_means": Fault(
        "models/mixture.py", "bartlett_factor(rng, P, n - X.shape[1])", "bartlett_factor(rng, P, n)",
        "models/test_mixture.py::test_mean_of_random_starts_near_the_number_of_classes",
    ),
    "later_samples_of_a_batch": Fault(
        "simulators/reduced.py", "dof[block, i] = max(rest - i, 0)", "dof[block, i] = max(rest, 0)",
        "simulators/test_reduced.py::test_products_of_samples_are_those_of_gaussian_vectors",
    ),
    "last_node_between_students": Fault(
        "activations/_class_relu.py",
        "for t in range(20):\n            total",
        "for t in range(19):\n            total",
        "whole/test_invariances.py::test_a_teacher_is_a_student_of_negative_readout", compiled=True,
    ),
    "planes_that_leave_the_noise_out": Fault(
        "activations/declared.py", "np.insert(planes, n, 0.0, axis=1)", "np.insert(planes, n - 1, 0.0, axis=1)",
        "activations/test_rule.py::test_a_plane_that_does_not_see_the_noise_may_leave_it_out",
    ),
    "costs_of_the_lower_bound": Fault(
        "static/spiked/bounds.py", "features.charged(least, bias)", "features.charged(cost, bias)",
        "static/spiked/test_bounds.py::test_bounds_are_residuals_of_least_squares",
    ),
    "fixed_points_of_equal_error": Fault(
        "theory/stationary.py", "<= tolerance and modes == growing", "<= tolerance",
        "theory/test_stationary.py::test_exact_points_are_told_apart",
    ),
    "fixed_points_on_one_side": Fault(
        "theory/stationary.py", "for mode in (*modes, *-modes)", "for mode in modes",
        "theory/test_stationary.py::test_exact_points_are_told_apart",
    ),
    "last_entry_of_a_state": Fault(
        "integrators/_steps.py", "range(x.size - x.size % 4, x.size)", "range(x.size - x.size % 4 + 1, x.size)",
        "flow/test_flow.py::test_loops_over_several_entries_at_once_reach_the_last_ones",
    ),
    "eigenvalues_of_random_teachers": Fault(
        "finite_size/unknowns.py",
        "np.kron(np.eye(len(self.pairs)), self.s)",
        "np.kron(self.s, np.eye(len(self.pairs)))",
        "finite_size/test_fluctuations.py::test_blocks_students_and_teachers_may_be_numbered_in_any_order",
    ),
    "unit_of_what_is_cut": Fault(
        "static/bayes/solutions.py", "(kept + feature.total * left)", "(kept + left)",
        "static/bayes/test_teacher.py::test_labels_in_other_units_have_errors_in_these",
    ),
    "rates_of_a_first_guess": Fault(
        "protocols/optimal.py", "(problem.knots.size,)) / unit", "(problem.knots.size,))",
        "protocols/test_control.py::test_a_search_that_begins_at_its_answer_stays_there",
    ),
    "series_of_slow_modes": Fault(
        "theory/scaling/schedules.py", "phi2 = 0.5 - x / 6", "phi2 = 0.5 + x / 6",
        "theory/scaling/test_schedules.py::test_series_of_slow_modes_meet_exponentials",
    ),
    "norms_of_gaussian_rows": Fault(
        "static/spiked/network_correction.py", "np.diag([0.0, 2 * model.c**2])", "np.diag([0.0, 2 * model.c])",
        "static/spiked/test_simulation.py::test_gaussian_rows_scale_with_the_argument_of_the_student",
    ),
    # what heads, decaying readouts, few samples, equal readouts or noise that is 1 would hide
    "head_of_a_sample": Fault(
        "finite_size/noise.py", "head = i if len(heads) > 1 else 0", "head = 0",
        "test_mixed.py::test_samples_of_tasks_in_another_order_have_the_same_covariance",
    ),
    "readouts_through_a_switch": Fault(
        "protocols/control.py", "self.stages.heads is None and leg.model.trains_v", "leg.model.trains_v",
        "protocols/test_stages.py::test_values_and_slopes_of_two_linear_tasks",
    ),
    "noise_of_implicit_steps": Fault(
        "protocols/control.py", "second_order, float(noise2)", "second_order, float(model.noise)",
        "protocols/test_control.py::test_values_on_wide_spectra_are_those_of_the_solution",
    ),
    "greedy_rate_of_a_decaying_readout": Fault(
        "protocols/optimal.py", "(system.decay, system.decay_v, 0.0) if second", "(system.decay, 0.0, 0.0) if second",
        "protocols/test_control.py::test_the_greedy_rate_knows_what_moves_with_eta",
    ),
    "horizon_of_a_mean_by_shares": Fault(
        "protocols/shares.py", "h * B[i] / self.knots[-1] * slope", "h * B[i] * slope",
        "test_mixed.py::test_gradient_of_the_mean_error_by_shares",
    ),
    "scatter_of_few_samples": Fault(
        "manifold/fresh.py", "sample.std(axis=0) / np.sqrt(n)", "sample.std(axis=0) / n",
        "manifold/test_fresh.py::test_few_samples_of_the_right_law_deviate_by_their_scatter_alone",
    ),
    "readout_of_an_average": Fault(
        "landscape/averages.py", "np.append(readout, np", "np.append(np.ones(model.K), np",
        "models/test_learner.py::test_averages_know_the_readout_of_each_record",
    ),
    "equal_readouts_in_a_potential": Fault(
        "static/bayes/exact.py", "-prices @ self.counts - nu", "-prices.sum(axis=1) - nu",
        "static/bayes/test_exact.py::test_potential_of_two_equal_readouts_counts_both",
    ),
    "pairs_of_samples_in_norms": Fault(
        "static/spiked/network_correction.py", "2 * (step.h2_star * step.vs)", "(step.h2_star * step.vs)",
        "static/spiked/test_simulation.py::test_projections_and_norms_of_rows_after_a_step",
    ),
    "noise_of_the_selection": Fault(
        "theory/quadratic/selection.py", "2 * (M + 2) / M**2 + noise**2", "2 * (M + 2) / M**2 + noise",
        "theory/quadratic/test_selection.py::test_kappa_is_the_covariance_of_the_general_theory",
    ),
    "what_inputs_do_not_see": Fault(
        "simulators/reduced.py", "np.tensordot(1 / s[with_variance]", "np.tensordot(s[with_variance]",
        "simulators/test_reduced.py::test_frames_hold_the_covariance_of_all_fields",
    ),
    "sign_of_a_readout": Fault(
        "results/curves.py", "R * np.sign(self.v[..., 0] * model.v_star[0])", "R * np.sign(model.v_star[0])",
        "activations/test_sign.py::test_a_negative_readout_turns_the_answer_over",
    ),
    "variance_of_residuals": Fault(
        "theory/rules.py", "a**2 * (s * s + variance) / square", "a**2 * variance / square",
        "theory/test_rules.py::test_gain_of_clipping_normal_residuals",
    ),
    "students_driven_by_random_teachers": Fault(
        "finite_size/unknowns.py", "+= u.s**2 * self.B[k, other]", "-= u.s**2 * self.B[k, other]",
        FLUCTUATIONS + "test_the_jacobian_is_that_of_differences_of_the_flow",
    ),
    "runs_without_a_first_stage": Fault(
        "results/composed.py", "np.full(v.shape[:-1]", "np.full(v.shape[:1]",
        "results/test_staged.py::test_runs_that_begin_after_their_first_stage_have_errors_of_all",
    ),
    "spheres_of_all_tasks": Fault(
        "flow/mixed.py", "if not model.spherical:", "if model.K:",
        "test_changing_inputs.py::test_spheres_are_kept_where_variances_change",
    ),
    "variances_of_the_moment": Fault(
        "simulators/mixed.py", "self.model.spectrum.s * scales[t, 0] ** 2", "self.model.spectrum.s * scales[0, 0] ** 2",
        "simulators/test_learners.py::test_forces_read_the_overlaps_of_the_moment",
    ),
    "means_without_variance": Fault(
        "models/mixture.py", "sums, np.eye(C)", "-sums, np.eye(C)",
        "simulators/test_classes.py::test_teachers_have_their_means_where_inputs_do_not_vary",
    ),
    "factors_of_a_record": Fault(
        "models/state.py", "np.tensordot(self.factors, self.r, axes=1)", "self.r.sum(axis=0)",
        "test_changing_inputs.py::test_states_of_records_have_the_overlaps_of_the_records",
    ),
    # drawn at random among all operators, constants, indices, conditions and arguments
    "scale_of_mean_random_weights": Fault(
        "symmetric_path.py", "q=scale**2 * p * np.eye", "q=p * np.eye",
        "test_plateaus.py::test_mean_overlaps_of_random_weights_are_those_of_a_large_draw",
    ),
    "rows_of_a_second_layer": Fault(
        "finite_size/expansion.py", "[: self.trajectory.v[0].size]", "[:]",
        FLUCTUATIONS + "test_second_layers_of_several_blocks_and_random_teachers",
    ),
    "squarings_of_the_largest_matrix": Fault(
        "finite_size/transport.py", "np.max(np.abs(J)", "np.min(np.abs(J)",
        FLUCTUATIONS + "test_propagators_of_matrices_of_all_sizes",
    ),
    "slope_by_a_head": Fault(
        "flow/mixed.py", "share / task.eta_v * d", "share * d",
        "flow/test_flow.py::test_slopes_of_mixed_tasks_are_the_gradients_of_their_mean_error",
    ),
    "no_variance_before_a_switch": Fault(
        "protocols/control.py", "where=old > 0)", "where=old >= 0)",
        "protocols/test_stages.py::test_values_and_slopes_of_two_linear_tasks",
    ),
    "unit_of_a_constant_rate": Fault(
        "protocols/optimal.py", "4 * x.s.max()", "4",
        "protocols/test_control.py::test_the_best_constant_knows_the_unit_of_the_inputs",
    ),
    "interval_up_to_a_switch": Fault(
        "models/stages.py", "wanted is None and last > first", "wanted is None",
        "models/test_stages.py::test_an_interval_may_end_at_a_switch",
    ),
    "dimension_of_class_means": Fault(
        "simulators/plan.py", "model.check_size(N)", "pass",
        "simulators/test_classes.py::test_class_means_have_one_dimension",
    ),
    "rows_with_opposite_features": Fault(
        "manifold/clusters.py", "np.max(np.abs(G - np.eye(N)))", "np.max(G - np.eye(N))",
        "manifold/test_clusters.py::test_moments_of_any_features_are_integrals",
    ),
    "steps_of_opposite_spikes": Fault(
        "static/spiked/conditional.py", "self.rho / abs(self.gamma)", "self.rho / self.gamma",
        "static/spiked/test_features.py::test_rule_over_k_follows_sharp_steps",
    ),
    "largest_student_of_a_branch": Fault(
        "stability/critical.py", "np.max(students) /", "np.min(students) /",
        "stability/test_stability.py::test_the_largest_student_tells_how_far_a_fixed_point_has_gone",
    ),
    "second_layer_of_a_start_in_moments": Fault(
        "theory/cayley_hamilton/hierarchy.py", "T=start.T, v=start.v)", "T=start.T)",
        "theory/cayley_hamilton/test_hierarchy.py::test_a_second_layer_that_is_not_trained_is_the_start_s",
    ),
    "late_times_beyond_the_critical_rate": Fault(
        "theory/late_time.py", "pairs.kept_up(noise) if noise else (0.0, 0.0)", "pairs.kept_up(noise)",
        "theory/test_late_time.py::test_critical_eta_is_where_an_eigenvalue_crosses_zero",
    ),
    "rank_of_small_teachers": Fault(
        "theory/quadratic/landscape.py", "RANK * np.abs(form).max()", "RANK",
        "theory/quadratic/test_landscape.py::"
        "test_dimension_of_solutions_for_any_teacher_overlaps_and_second_layers",
    ),
    "students_beside_the_teachers": Fault(
        "theory/quadratic/bias.py", "rest = vectors * np.sqrt(np.maximum(values, 0.0))", "rest = vectors",
        "theory/quadratic/test_bias.py::test_riccati_solution",
    ),
    "weak_descents": Fault(
        "theory/stationary.py", "10 * TURN if self.flat < 0 else FLAT", "10 * TURN",
        "theory/test_stationary.py::test_weak_descents_count_where_eigenvalues_are_known",
    ),
    "large_functions": Fault(
        "_base/parts.py", "if not large:", "if True:", "whole/test_keeping.py::test_a_large_function_is_optimised_once",
    ),
    "namesakes": Fault(
        "_base/keeping.py", """ + b"\\0" + content""", "",
        "whole/test_keeping.py::test_kernels_of_one_name_are_told_apart",
    ),
    "folders_of_others": Fault(
        "_base/folders.py", "if found.st_mode & stat.S_IWOTH:", "if False:",
        "whole/test_folders.py::test_a_folder_that_others_may_write_is_none",
    ),
    "links_as_locks": Fault(
        "_base/folders.py", "os.O_CREAT | os.O_RDWR | NO_LINK", "os.O_CREAT | os.O_RDWR | os.O_TRUNC",
        "whole/test_folders.py::test_a_lock_changes_no_file",
    ),
    "logs_as_inputs": Fault(
        "sweeps/contents.py", "(read - changed)", "read",
        "sweeps/test_contents.py::test_what_changes_no_number_is_no_change",
    ),
}  # fmt: skip


def caught(name):
    """Whether the tests beside a fault fail with it; (answer, what pytest said)."""
    fault = FAULTS[name]
    source = (PACKAGE / fault.file).read_text()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "overlaps"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / fault.file).write_text(source.replace(fault.old, fault.new))
        env = os.environ | {"PYTHONPATH": folder, "MPLBACKEND": "agg", "OVERLAPS_JIT": "always"}  # no other tier
        if "@jit" in source and not fault.compiled:
            env["NUMBA_DISABLE_JIT"] = "1"
        tests = ["tests/" + test for test in fault.tests.split()]
        command = [sys.executable, "-c", RUN, str(copy), *tests]
        done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == FAILED, done.stdout


def main():
    """Try the faults named on the command line; exit with 1 if one of them survives."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="name", help="faults to try")
    parser.add_argument("--all", action="store_true", help="try all of them")
    parser.add_argument("--list", action="store_true", help="print their names")
    options = parser.parse_args()
    unknown = set(options.names) - set(FAULTS)
    if unknown or options.list or not (options.all or options.names):
        print(*FAULTS, sep="\n")
        sys.exit(f"no fault of this name: {', '.join(sorted(unknown))}" if unknown else 0)
    survivors = []
    for name in FAULTS if options.all else options.names:
        dead, said = caught(name)
        print(f"{name:32} {'caught' if dead else 'SURVIVED'}", flush=True)
        if not dead:
            survivors.append(name)
            print(said)
    sys.exit(f"survived: {', '.join(survivors)}" if survivors else 0)


if __name__ == "__main__":
    main()
