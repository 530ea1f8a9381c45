"""Bayes-optimal learning of teachers of extensive width: fixed points, thresholds, scaling laws."""
