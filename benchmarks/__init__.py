"""Costs of toolcrib, each figure next to a baseline measured in the same run. ``python -m benchmarks --help``"""
