"""The contract: types, the registry, hooks, and protocols that other packages implement. Import each module by its own name."""
