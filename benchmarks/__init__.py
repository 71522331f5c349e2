"""What toolcrib costs, each figure against a baseline measured in the same run. ``python -m benchmarks --help``"""
