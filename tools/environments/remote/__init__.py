"""The common part of docker, ssh and backends of programs: a persistent shell on another machine or in a container.

``channel`` defines what a backend must offer; ``program`` is a backend whose commands a program such as ``podman exec`` starts.
``frame`` separates a command's end from its output, ``shell_channel`` is one bash that runs scripts or keeps a session's shell
alive, and ``channel_pool`` holds all channels of an environment. ``environment`` combines ``shell``, its ``state``,
``beginning`` and ``call`` (one command), ``spawned`` (a background command), ``terminal`` (one in a terminal) and ``files``.
``once`` and ``aside`` run helper work. ``oneshot`` runs commands without bash, ``processes`` lists what runs, and ``left`` ends
what a killed toolcrib left.
"""
