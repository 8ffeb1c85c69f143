"""Reader of exported traces, in four steps; `read` runs them.

1. One reader per export form yields spans: `otel`, and those tracers in `tracers` that have a form of their own.
2. `genai` interprets the attributes and events of a span by the GenAI conventions of OpenTelemetry, `genai_messages`
   those with messages, in whatever form (`messages`). Each tracer has a file in `tracers`, which translates what it
   writes to these conventions.
3. `span_tree` joins the spans of a trace to a tree; `deduplicate` drops spans and traces that repeat others.
4. `call_ledger` merges the records of each call, and `to_runs` reports the calls to a `RunBuilder`, as any recorder
   does.
"""
