"""`python -m inference.cli`."""

from inference.cli.main import app

if __name__ == "__main__":
    app(prog_name="tandem")
