"""Readers of traces: one module per export form, and the steps from spans to runs."""
