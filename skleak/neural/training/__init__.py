"""Batches, noise and the steps of private stochastic gradient descent."""
