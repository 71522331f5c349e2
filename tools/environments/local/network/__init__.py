"""Network of a sandbox that reaches only the hosts that a person allowed.

The sandbox has a network namespace without any route. ``guard.NetworkGuard`` is outside; ``inner`` is a small program inside that
makes the proxy's listening socket in the sandbox's namespace and passes it out, so the guard accepts the commands' connections
itself. Use:

    guard = NetworkGuard(socket_path, allow=["example.org", "localhost:5432"], ask=ask, said=print)
    guard.start()
    guard.learn(os.environ, home, project)       # hosts of package managers, in the background
    subprocess.Popen([*guard.inner_argv, pid])   # pid: a process in the sandbox's namespaces
    shell = start_shell(env=guard.environment()) # HTTP_PROXY and the like
    guard.allow("other.example")                 # effective at once
    guard.denials(since)                         # list[DeniedHost(host, port, when, why)]
    guard.close()

The last argument of ``inner_argv`` may be followed by the number of a process in the sandbox; then it is started outside and
enters that process's user and network namespaces, so commands see neither it nor ``socket_path``. Its starter kills it when
the sandbox ends. From its start on, ports that the sandbox listens on are forwarded to this machine's 127.0.0.1. A new sandbox of
the same session starts it again.

``hosts`` decides, ``requests`` reads the proxy's protocols, ``proxy`` answers, ``tunnel`` and ``connections`` move bytes,
``inside`` and ``ports`` are the two sides of the namespace, ``learned`` asks package managers for their hosts.
"""

from tools.environments.local.network.guard import NetworkGuard, proxy_environment
from tools.environments.local.network.hosts import DeniedHost
from tools.environments.local.network.learned import learned_hosts

__all__ = ["DeniedHost", "NetworkGuard", "learned_hosts", "proxy_environment"]
