"""Scores as records for the tools that the traces came from, and their way through OpenTelemetry."""
