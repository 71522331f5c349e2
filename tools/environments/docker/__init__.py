"""The docker backend: one container for each session, hardened by default.

``environment`` is the backend itself; ``options`` and ``mounts`` define the container and the folders that it sees. ``link``
creates and removes the container, ``patience`` limits the waits for its engine, ``engine`` explains why an engine does not
answer, ``kept`` checks a reused container, and ``channel`` is one process in it. ``watch`` cleans up after a killed toolcrib,
``removal`` retries failed removals. ``admin`` lists and stops containers for the user, ``person`` opens a shell in one for the
user.
"""

from tools.environments.docker.environment import DockerEnvironment, open_docker

__all__ = ["DockerEnvironment", "open_docker"]
