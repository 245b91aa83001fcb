"""The serving API in the shapes of OpenAI's clients: requests read, answers written."""
