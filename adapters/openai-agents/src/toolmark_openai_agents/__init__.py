"""The OpenAI Agents adapter of toolmark.

This version holds no recorder yet: the package installs and imports, and offers nothing else. The recorder comes in a
later version; until then, build the test cases yourself with `toolmark`, which needs no framework.
"""
