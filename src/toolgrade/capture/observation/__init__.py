"""Recording of plain Python agents: `@observe`, and the spans and recorder behind it."""
