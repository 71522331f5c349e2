from toolcrib import registry

__all__ = ["registry"]
