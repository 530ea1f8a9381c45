"""Whole integrations at the edge of what overlaps can be."""

import numpy as np

import overlaps as ov


def test_dependent_students_stay_what_they_are():
    """Six linear students in the span of one teacher: overlaps of rank one, and their sum learns as a single unit does.

    Rounding makes such overlaps indefinite; a closure that conditions on dependent fields must not amplify that.
    """
    students, T = np.array([-0.03, -0.78, -0.76, -0.96, 0.71, 0.77]), 0.55
    functions = dict(activation=ov.linear, teacher_activation=ov.polynomial([0.5, 1.0]))
    six = ov.committee_machine(6, 1, eta=0.27, normalised=True, **functions)
    one = ov.committee_machine(1, 1, eta=0.27 / 6, **functions)  # the gradient of each unit has a factor 1/6
    mean = students.mean()
    starts = [
        (six, ov.State.from_overlaps(six, Q=T * np.outer(students, students), R=T * students[:, None], T=[[T]])),
        (one, ov.State.from_overlaps(one, Q=[[T * mean**2]], R=[[T * mean]], T=[[T]])),
    ]
    many, single = (ov.solve(*start, [10.0, 50.0], rtol=1e-10, method="DOP853") for start in starts)
    assert many.success and single.success
    np.testing.assert_allclose(many.R.mean(axis=(1, 2)), single.R.ravel(), rtol=1e-9)
    np.testing.assert_allclose(many.Q.mean(axis=(1, 2)), single.Q.ravel(), rtol=1e-9)
