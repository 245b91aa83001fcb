"""One request on its way, from the first choice to the last word, over as many attempts as it takes."""
