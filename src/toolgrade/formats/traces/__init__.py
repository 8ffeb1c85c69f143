"""Reader of exported traces, in five steps; `read` runs them.

1. One reader per export form (`otel`, `langfuse`, `langsmith`, `openai_agents`) turns each record into a `Span`.
2. `semantic_conventions` interprets the attributes and events of OpenTelemetry spans, those inside of Langfuse, too.
   `attribute_aliases` translates names first; `tool_runs` and `span_messages` read tools and messages, the latter with
   `trace_messages`, which knows the messages of all providers and frameworks.
3. `span_tree` joins the spans of a trace to a tree; `deduplicate` drops spans and traces that repeat others.
4. `call_ledger` merges the records of each call: in replies of models, in histories, and as spans of tools. `call_ids`
   repairs ids first.
5. `to_runs` reports the calls to a `RunBuilder`, as any recorder does.
"""
