"""Network of a sandbox that reaches only the hosts that a person allowed.

The sandbox has a network namespace without any route. ``guard.NetworkGuard`` is outside; ``inner`` is a small program inside that
makes the proxy's listening socket in the sandbox's namespace and passes it out, so the guard accepts the commands' connections
itself. Use:

    guard = NetworkGuard(socket_path, allow=["example.org", "localhost:5432"], ask=ask, said=print)
    guard.start()
    guard.learn(os.environ, home, project)       # hosts of package managers, in the background
    subprocess.Popen(guard.inner_argv)           # by the launcher, in the new namespaces, with CAP_NET_ADMIN there and /proc
    shell = start_shell(env=guard.environment()) # HTTP_PROXY and the like
    guard.allow("other.example")                 # effective at once
    guard.denials(since)                         # list[DeniedHost(host, port, when, why)]
    guard.close()

The launcher starts ``inner_argv`` before the masks close ``socket_path`` to commands, and does not wait for its end. From then on
ports that the sandbox listens on are forwarded to this machine's 127.0.0.1. A new sandbox of the same session starts it again.

``hosts`` decides, ``requests`` reads the proxy's protocols, ``proxy`` answers, ``tunnel`` and ``connections`` move bytes,
``inside`` and ``ports`` are the two sides of the namespace, ``learned`` asks package managers for their hosts.
"""

from tools.environments.local.network.guard import NetworkGuard, proxy_environment
from tools.environments.local.network.hosts import DeniedHost
from tools.environments.local.network.learned import learned_hosts

__all__ = ["DeniedHost", "NetworkGuard", "learned_hosts", "proxy_environment"]
