"""Recorders of agents that speak a standard protocol: OpenTelemetry spans (`otel`) and MCP sessions (`mcp`).

Both collect spans and pass them to the reader of trace files, so a run is the same live and read from a file.
"""
