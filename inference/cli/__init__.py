"""The command line client: everything it does, it does through the REST API."""
