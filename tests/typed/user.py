# pyright: strict
"""What a user writes, for type checkers: each ``reveal_type`` is compared with the comment behind it."""

from typing import reveal_type

import numpy as np

import overlaps as ov

model = ov.committee_machine(2, 2, activation=ov.erf, eta=0.5, spectrum=ov.power_law(beta=1.0, L=20), noise=0.1)
reveal_type(model)  # Model
reveal_type(ov.quadratic_network(3, 2, eta=0.1))  # Model
manifold = ov.hidden_manifold(2, 2, features="sign", ratio=0.5, eta=0.2)
reveal_type(manifold)  # HiddenManifold
reveal_type(ov.erf)  # Activation
reveal_type(ov.leaky_relu(0.1))  # Activation
reveal_type(ov.Activation.from_function(np.sin, np.cos))  # Activation
reveal_type(ov.Spectrum.from_covariance(np.eye(4)))  # Spectrum

start = model.random_start(N=5000, rng=1)
reveal_type(start)  # State
reveal_type(start.Q)  # ndarray
reveal_type(ov.State.from_overlaps(model, Q=np.eye(2), R=np.zeros((2, 2)), T=np.eye(2)))  # State
reveal_type(ov.closure(model, start.Q, start.R, start.T))  # Closure
reveal_type(ov.closure(start))  # Closure
reveal_type(model.replace(eta=0.1))  # Model

traj = ov.solve(model, start, (0.0, 300.0), rtol=1e-9, schedule=ov.Schedule.cosine(300.0))
reveal_type(traj)  # Trajectory
reveal_type(traj.eps_g)  # ndarray
reveal_type(traj.R)  # ndarray
reveal_type(traj[-1])  # State
reveal_type(traj.at(10.0))  # State
reveal_type(traj.success)  # bool
reveal_type(ov.solve(model, start, [0.0, 1.0], blocks=False))  # SummedTrajectory
reveal_type(ov.solve_many([model, model], start, np.linspace(0, 1, 5)))  # Batch

runs = ov.simulate(model, N=5000, alpha=[0, 1, 10], rng=2, start=start, runs=5)
reveal_type(runs)  # Ensemble
reveal_type(runs.mean("eps_g"))  # ndarray
reveal_type(runs.start(0))  # State
reveal_type(ov.simulate(manifold, N=500, alpha=(0, 1), rng=2, test=100))  # ManifoldEnsemble

stages = ov.Stages([model, model], until=[1.0, 2.0])
reveal_type(ov.solve(stages, start, (0, 2)))  # StagedTrajectory
reveal_type(ov.simulate(stages, N=5000, alpha=[0, 1], rng=1))  # StagedEnsemble

reveal_type(ov.fixed_point(model, start))  # FixedPoint
reveal_type(ov.fixed_point(model, start).state)  # State
reveal_type(ov.linearise(model, start).rate)  # float
reveal_type(ov.linearise(start).rate)  # float
reveal_type(ov.hessian(traj[-1]))  # HessianSpectrum
reveal_type(ov.solve(traj[-1], (300.0, 400.0)))  # Trajectory
reveal_type(traj.slope((1.0, 10.0)))  # Any
reveal_type(ov.critical_eta(model, start))  # CriticalEta
reveal_type(ov.hessian(model, traj))  # HessianSpectrum
reveal_type(ov.compress(model, start, nodes=8))  # tuple
reveal_type(ov.tlog_rmse(traj, runs))  # Discrepancy
reveal_type(ov.optimal_schedule(model, start, 10.0))  # OptimalSchedule
reveal_type(ov.greedy_schedule(model, start, 10.0))  # Schedule


def final(eta: float) -> float:
    return float(traj.eps_g[-1]) * eta


scan = ov.sweep(final, {"eta": [0.1, 0.2]}, rng=None)
reveal_type(scan)  # Sweep
reveal_type(scan.array())  # ndarray

reveal_type(ov.theory.linear.error(model.spectrum, 0.5, [1.0, 2.0]))  # ndarray
law = ov.theory.scaling.Law(1.0, 0.3, L=50, eta=0.5)
reveal_type(law)  # Law
reveal_type(law.error([1.0, 2.0]))  # ndarray
reveal_type(law.terms(1.0))  # Terms
reveal_type(law.frontier(10.0))  # Frontier
reveal_type(law.exponents.time)  # float
reveal_type(ov.theory.scaling.fit(np.arange(1.0, 100.0), law.error(np.arange(1.0, 100.0))))  # Fit
reveal_type(ov.theory.plateau.plateau(start.T))  # Heights
reveal_type(ov.theory.quadratic.eta_solution(3, 3))  # float
features = ov.static.SpikedRandomFeatures.after_one_step(np.tanh, np.sin, eta_tilde=2, alpha0=1, beta=0.5)
reveal_type(features)  # SpikedRandomFeatures
reveal_type(features.solve(alpha=1.0, lam=0.1))  # SpikedSolution
teacher = ov.static.HierarchicalTeacher(activation={3: 0.5}, k=10, beta=0.6, noise=0.1)
reveal_type(teacher.solve(nu=3.0))  # BayesSolution
reveal_type(teacher.curve((1.0, 10.0)))  # BayesCurve
reveal_type(ov.static.EqualReadouts(noise=0.5, activation={3: 1.0}).threshold)  # float
data = np.zeros((36, 12)), np.zeros(36), np.eye(10, 12)
reveal_type(ov.static.sample_posterior(teacher, d=12, nu=3.0, rng=1, data=data))  # PosteriorSample
reveal_type(ov.static.train_student(teacher, d=12, n=36, width=4, rng=1))  # StudentRun
reveal_type(features.solve(alpha=1.0, lam=0.1, loss="hinge"))  # SpikedClassifier
reveal_type(features.curve([0.5, 1.0], lam=0.1))  # SpikedCurve
reveal_type(features.optimal_lam(1.0))  # OptimalLam
reveal_type(features.bounds())  # Bounds
reveal_type(features.spectrum(alpha=1.0))  # FeatureSpectrum
reveal_type(features.simulate(alpha=1.0, lam=0.1, d=50, rng=1))  # OneStepRuns
reveal_type(ov.static.gaussian_rows(features, alpha=1.0, lam=0.1))  # CorrectedPoint
reveal_type(ov.static.best_step(np.tanh, np.sin, alpha0=1.0, beta=0.5, alpha=1.0))  # BestStep
reveal_type(ov.static.bounds_over_rate(np.tanh, np.sin))  # RateBounds
several = ov.static.SpikedSubspace.after_steps(np.tanh, np.add, indices=2, eta_tilde=(1, 1), alpha0=8, beta=1.0)
reveal_type(several.solve(alpha=2.0, lam=0.1))  # SpikedSolution

mixture = ov.gaussian_mixture(2, weights=[0.5, 0.5], labels=[1, -1], means=np.eye(2, 8), eta=0.1)
reveal_type(mixture)  # GaussianMixture
reveal_type(ov.solve(mixture, mixture.random_start(N=800, rng=1), (0, 1)))  # Trajectory
reveal_type(ov.gaussian_covariates(np.eye(9), np.eye(9, 4), np.eye(4), 2, 1, eta=0.1)[0])  # GaussianCovariates
reveal_type(ov.fluctuations(traj, N=1000))  # Fluctuations
reveal_type(ov.fluctuations(traj, N=1000).std("eps_g"))  # ndarray
reveal_type(ov.theory.escape(model, start, 1000, 0.01))  # EscapeLaw
reveal_type(ov.theory.stationary_points(model))  # list
reveal_type(ov.schedule_gradient(model, start, ov.Schedule.cosine(10.0), 10.0)[0])  # float
reveal_type(ov.compression_error(model, start, 8, [0.0, 1.0]))  # float
