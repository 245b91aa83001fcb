"""What agents and the control plane do alike at the broker. Needs Celery, and nothing else of Tandem."""
