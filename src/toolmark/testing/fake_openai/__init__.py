"""A real HTTP endpoint on loopback that speaks OpenAI's API and answers from a script."""
