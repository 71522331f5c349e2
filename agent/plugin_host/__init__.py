"""Plugin host: find, load, start and stop plugins, and call their hooks around runs."""
