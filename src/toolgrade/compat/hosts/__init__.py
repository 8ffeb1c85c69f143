"""Metrics as evaluators inside other libraries: one module per library."""
