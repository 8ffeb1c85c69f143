"""Entry point of `python -m toolgrade.cli`."""

from toolgrade.cli.main import run

if __name__ == "__main__":
    run()
