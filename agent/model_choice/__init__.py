"""The choice of a model: endpoints, catalogue, call styles, fallbacks, prices and retries."""
