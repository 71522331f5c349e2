"""A docker engine: a container for each session, hardened unless told otherwise.

``link`` makes and ends the container, ``channel`` is one process in it, ``mounts`` says which folders it may see, ``watch`` ends
what a toolcrib that was killed leaves behind; ``admin`` is for people who list and end containers, ``person`` takes one inside.
"""

from tools.environments.docker.environment import DockerEnvironment, open_docker

__all__ = ["DockerEnvironment", "open_docker"]
