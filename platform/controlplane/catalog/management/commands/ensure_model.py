"""`manage.py ensure_model`: a model in the catalogue, made once and kept up to date."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.catalog.services import model_ensure
from controlplane.core.errors import ControlError


class Command(BaseCommand):
    help = "Add a model to the catalogue, or bring the path and description of the one of this name up to date."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True)
        parser.add_argument("--path", required=True, help="a directory as the nodes see it, or a hub id")
        parser.add_argument("--description", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            model = model_ensure(name=options["name"], path=options["path"], description=options["description"])
        except ControlError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"The catalogue has {model.name} at {model.path}.")
