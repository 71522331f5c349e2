"""Mutation testing; ``scripts/mutate`` runs it."""
