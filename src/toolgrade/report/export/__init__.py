"""Scores as records for tracing backends, and sending them with OpenTelemetry."""
