"""The contract: types, the registry, hooks, and protocols of what others implement. Each module is imported by its own name."""
