"""Network of a sandbox that reaches only the hosts that the user allowed.

The sandbox has a network namespace without any route. ``guard.NetworkGuard`` is outside; ``.._inner`` is code that runs in
the namespace, makes the proxy's listening socket there and passes it out, so the guard accepts the commands' connections. Use:

    guard = NetworkGuard(["example.org", "localhost:5432"], lambda: learned_hosts(environment, home, *projects))
    guard.join(pid)                              # pid: a process in the sandbox's user and network namespaces
    shell = start_shell(env=guard.environment()) # HTTP_PROXY and the like
    guard.allow("other.example")                 # effective at once
    with guard.allowing(["new.example"]): ...    # temporarily
    guard.denials(since)                         # list[DeniedHost(host, port, when, why)]
    guard.notices()                              # sentences for the user
    guard.leave()                                # the sandbox has ended; join the next one
    guard.close()

While a sandbox is joined, its listening ports are forwarded to this machine's 127.0.0.1. The ``environment`` of
``learned_hosts`` has the variables of the user's commands; package managers are run with them.

``hosts`` decides, ``requests`` reads the proxy's protocols, ``proxy`` answers, ``connections`` and ``mover`` move bytes,
``inside`` makes sockets in the namespace, ``ports`` forwards ports in both directions, ``learned`` asks package managers for
their hosts.
"""

from tools.environments.local.network.guard import NetworkGuard
from tools.environments.local.network.hosts import DeniedHost
from tools.environments.local.network.learned import learned_hosts

__all__ = ["DeniedHost", "NetworkGuard", "learned_hosts"]
