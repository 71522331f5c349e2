"""A docker engine: a container for each session, hardened unless told otherwise.

``environment`` is the whole; ``options`` say what the container is made of and ``mounts`` which folders it may see, ``link``
makes and ends it with ``patience`` for its engine, ``engine`` says why one does not answer, ``kept`` is about one that was
there before, ``channel`` is one process in it, ``watch`` ends what a toolcrib that was killed leaves behind and
``removal`` what an engine would not remove at the end; ``admin`` is for people who list and end containers, ``person`` takes
one inside.
"""

from tools.environments.docker.environment import DockerEnvironment, open_docker

__all__ = ["DockerEnvironment", "open_docker"]
