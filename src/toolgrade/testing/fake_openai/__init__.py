"""A scripted HTTP endpoint on loopback with OpenAI's API."""
