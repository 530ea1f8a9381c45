"""Random features after one giant gradient step: test error, bounds, spectrum, simulation."""
