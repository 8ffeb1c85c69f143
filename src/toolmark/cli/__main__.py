"""Entry point of `python -m toolmark.cli`."""

from toolmark.cli.main import run

if __name__ == "__main__":
    run()
