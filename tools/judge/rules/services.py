"""Rules: stopping services, and turning the machine off."""

from __future__ import annotations

from tools.judge.table import ActView, Test, count, first_operand, nth_operand, operand, opt, rule, sub, text, value, word

_VALUED = frozenset(
    [
        "-H",
        "--host",
        "-M",
        "--machine",
        "-t",
        "--type",
        "-p",
        "--property",
        "-n",
        "--lines",
        "-s",
        "--signal",
        "--what",
        "--kill-whom",
        "--root",
        "-o",
        "--output",
    ]
)
_STOPS = {"stop", "disable", "mask", "kill", "isolate", "revert", "clean", "freeze", "unmask-all", "try-stop", "condstop"}
_OFF = {
    "poweroff",
    "reboot",
    "halt",
    "kexec",
    "suspend",
    "hibernate",
    "hybrid-sleep",
    "suspend-then-hibernate",
    "rescue",
    "emergency",
}
_OFF |= {"soft-reboot", "exit", "switch-root", "default", "sleep"}
_OFF_TARGETS = (
    "poweroff.target",
    "reboot.target",
    "halt.target",
    "rescue.target",
    "emergency.target",
    "shutdown.target",
    "runlevel0.target",
)


def _verb(view: ActView) -> str:
    given = view.operands(_VALUED)
    return given[0].text if given else ""


def _unit(view: ActView) -> str:
    given = view.operands(_VALUED)
    return given[1].text.removesuffix(".service") if len(given) > 1 else ""


_SCHEDULED = opt("-c --show")

RULES = (
    rule(
        "service.stop",
        "ask",
        "systemctl",
        Test(lambda view: _verb(view) in _STOPS) & ~value("-s --signal", "help|list"),
        "stops or disables a service",
        yes=(
            "systemctl stop nginx",
            "systemctl --user disable a",
            "systemctl disable --now apparmor",
            "systemctl mask a",
            "systemctl isolate multi-user.target",
        ),
        no=(
            "systemctl status nginx",
            "systemctl is-enabled stop",
            "systemctl list-units",
            "systemctl cat nginx",
            "systemctl show x",
        ),
        at=_unit,
    ),
    rule(
        "service.change",
        "ask",
        "systemctl",
        Test(
            lambda view: (
                _verb(view)
                in (
                    "set-property",
                    "bind",
                    "mount-image",
                    "set-default",
                    "preset-all",
                    "preset",
                    "reset-failed-all",
                    "edit",
                )
            )
        )
        | (Test(lambda view: _verb(view) == "set-environment") & word(r"(?:LD_|PATH=|BASH_ENV|PYTHON|PERL|NODE_OPTIONS|GIT_).*"))
        | (Test(lambda view: _verb(view) == "log-level") & operand("emerg|alert|crit|[0-2]", 1))
        | (Test(lambda view: _verb(view) == "service-watchdogs") & operand("no|off|false|0", 1)),
        "changes how services run",
        yes=(
            "systemctl set-environment LD_PRELOAD=/tmp/x.so",
            "systemctl set-default rescue.target",
            "systemctl set-property nginx MemoryMax=1M",
        ),
        no=("systemctl get-default", "systemctl log-level", "systemctl service-watchdogs", "systemctl daemon-reexec"),
        at=_unit,
    ),
    rule(
        "power.off",
        "block",
        "systemctl",
        Test(
            lambda view: (
                _verb(view) in _OFF
                and "cancel" not in view.joined
                and not (_verb(view) in ("exit", "default") and opt("--user")(view))
            )
        )
        | (
            Test(lambda view: _verb(view) in ("start", "isolate"))
            & Test(lambda view: any(word in _OFF_TARGETS for word in view.words))
        ),
        "turns the machine off, restarts it or removes it from service",
        yes=("systemctl poweroff", "systemctl reboot", "systemctl -f halt", "systemctl start reboot.target", "systemctl suspend"),
        no=("systemctl status reboot.target", "systemctl --no-pager status"),
    ),
    rule(
        "power.off",
        "block",
        "loginctl busctl gnome-session-quit qdbus dbus-send gdbus osascript pmset",
        sub("poweroff|reboot|halt|suspend|hibernate|sleepnow|shutdownnow|restart")
        | (
            Test(lambda view: view.name not in ("loginctl", "pmset"))
            & text(
                r"(?:\.|:| )(?:PowerOff|Reboot|Halt|Suspend|Hibernate|requestShutdown|RequestShutdown|logoutAndShutdown)\b"
                r"|--power-off|--reboot|to (?:shut down|restart|sleep)\b"
            )
        ),
        "turns the machine off",
        yes=(
            "loginctl poweroff",
            "dbus-send --system --dest=org.freedesktop.login1 /x org.freedesktop.login1.Manager.PowerOff boolean:true",
            "osascript -e 'tell application \"System Events\" to restart'",
            "pmset sleepnow",
        ),
        no=("loginctl list-users", "busctl list", "pmset -g", "osascript -e 'display notification'"),
    ),
    rule(
        "power.off",
        "block",
        "shutdown",
        ~_SCHEDULED,
        "turns the machine off",
        yes=("shutdown -h now", "shutdown now", "shutdown", "shutdown -r +5", "shutdown /s /t 0"),
        no=("shutdown -c", "shutdown --show", "shutdown --help"),
    ),
    rule(
        "power.off",
        "block",
        "poweroff reboot halt pm-suspend pm-hibernate zzz systemd-reboot openrc-shutdown fastboot-reboot fasthalt fastboot-halt",
        ~(opt("-w --wtmp-only") & ~opt("-f")) & ~text(r"--when[= ]cancel"),
        "turns the machine off",
        yes=("reboot -f", "poweroff", "halt -p"),
        no=("last reboot", "poweroff --help", "which reboot"),
    ),
    rule(
        "power.off",
        "block",
        "init telinit",
        operand("[0126sS]", 0),
        "turns the machine off or removes it from service",
        yes=("init 6", "telinit 0"),
        no=("npm init 6", "init --version"),
    ),
    rule(
        "power.off",
        "block",
        "busybox toybox",
        sub("poweroff|reboot|halt"),
        "turns the machine off",
        yes="busybox reboot -f",
        no="busybox ls",
    ),
    rule(
        "power.off",
        "block",
        "kexec",
        opt("-e --exec -f --force"),
        "starts another kernel at once",
        yes="kexec -e",
        no="kexec --version",
    ),
    rule(
        "power.off",
        "block",
        "rtcwake",
        value("-m --mode", "mem|disk|off|standby|freeze") | word("-m(?:mem|off|disk)|--mode=(?:mem|off|disk|standby)"),
        "puts the machine to sleep",
        yes="rtcwake -m off -s 60",
        no="rtcwake -m show",
    ),
    rule(
        "power.off",
        "ask",
        "ipmitool racadm virsh xm xl VBoxManage vboxmanage prlctl qm pct ilorest redfishtool govc powercycle",
        text(
            r"\b(?:chassis )?power (?:off|cycle|reset|soft|diag)|\bserveraction (?:power|hard|grace)|\bmc reset"
            r"|\bvm\.(?:power -off|destroy)"
            r"|^(?:destroy|undefine|shutdown|reboot|reset|managedsave|vol-delete|pool-destroy|pool-delete|snapshot-delete"
            r"|net-destroy|net-undefine)\b"
            r"|\b(?:poweroff|unregistervm\b.*--delete|closemedium\b.*--delete|acpipowerbutton)\b|\bsnapshot \S+ (?:delete"
            r"|restore)"
            r"|^(?:stop|delete|kill) "
        ),
        "turns a machine off or deletes it",
        yes=(
            "ipmitool power off",
            "virsh destroy web",
            "virsh undefine web",
            "VBoxManage controlvm a poweroff",
            "qm destroy 100",
        ),
        no=("virsh list", "ipmitool power status", "VBoxManage list vms"),
    ),
    rule(
        "service.stop",
        "ask",
        "service invoke-rc.d",
        operand("stop|force-stop|--full-stop", 1) | word("--full-restart"),
        "stops a service",
        yes=("service mysql stop", "invoke-rc.d ssh stop"),
        no=("service mysql status", "service --status-all"),
        at=first_operand,
    ),
    rule(
        "service.stop",
        "ask",
        "rc-service rcctl",
        operand("stop|zap|disable", 1) | sub("stop|disable"),
        "stops a service",
        yes=("rc-service nginx stop", "rcctl disable httpd"),
        no="rc-service nginx status",
    ),
    rule(
        "service.stop",
        "ask",
        "rc-update update-rc.d chkconfig insserv sysv-rc-conf sysrc",
        (word("del|delete|remove|disable|off|--del|-r|--remove") | text(r"_enable=.?no")),
        "disables a service",
        yes=("update-rc.d nginx disable", "chkconfig httpd off", "rc-update del sshd"),
        no=("chkconfig --list", "rc-update show"),
    ),
    rule(
        "service.stop",
        "ask",
        "initctl stop",
        (Test(lambda view: view.name == "initctl") & sub("stop"))
        | (Test(lambda view: view.name == "stop") & count(1) & Test(lambda view: not view.act.argv[0].text.startswith("./"))),
        "stops a service",
        yes="initctl stop cron",
        no="initctl list",
    ),
    rule(
        "service.stop",
        "ask",
        "brew",
        sub("services") & operand("stop|kill", 1),
        "stops a service",
        yes="brew services stop postgresql",
        no=("brew services list", "brew services cleanup", "brew services start x"),
        at=nth_operand(2),
    ),
    rule(
        "service.stop",
        "ask",
        "launchctl",
        sub("unload|remove|bootout|disable|stop|kill|reboot"),
        "stops or disables a service",
        yes=("launchctl unload -w /Library/LaunchDaemons/a.plist", "launchctl bootout system/x"),
        no=("launchctl list", "launchctl print system"),
        at=nth_operand(1),
    ),
    rule(
        "service.stop",
        "ask",
        "supervisorctl pm2 forever god monit circusctl eye immortalctl honcho pueue nssm",
        sub("stop|shutdown|remove|delete|kill|stopall|stop-all|unmonitor|rm|quit|clear|reset|clean|del")
        & ~(
            # allowed: remove tasks that have finished or not begun, and end one task by its number (like ``kill PID``)
            Test(lambda view: view.name == "pueue")
            & (sub("clean|remove") | (sub("kill") & count(2) & ~opt("-g --group -a --all")))
        ),
        "stops services",
        yes=("supervisorctl stop all", "pm2 delete all", "pm2 kill"),
        no=("supervisorctl status", "pm2 list", "pm2 logs", "pueue clean", "pueue kill 3"),
        at=nth_operand(1),
    ),
    rule(
        "service.stop",
        "ask",
        "sv s6-svc svc runsvctrl dinitctl",
        sub("down|d|stop|exit|force-stop|kill|x|force-shutdown|shutdown") | opt("-d -k -x"),
        "stops a service",
        yes=("sv down nginx", "s6-svc -d /run/service/x"),
        no="sv status nginx",
    ),
    rule(
        "service.stop",
        "ask",
        "snap",
        sub("stop|disable"),
        "stops services",
        yes=("snap disable docker", "snap stop --disable nextcloud"),
        no=("snap services", "snap list"),
        at=nth_operand(1),
    ),
    rule(
        "service.stop",
        "ask",
        "sc net wsl sc.exe net.exe wsl.exe",
        (Test(lambda view: view.name in ("sc", "sc.exe")) & sub("stop|delete|config"))
        | (Test(lambda view: view.name in ("net", "net.exe")) & sub("stop"))
        | (Test(lambda view: view.name in ("wsl", "wsl.exe")) & opt("--shutdown --terminate --unregister")),
        "stops or deletes a service",
        yes=("sc stop Spooler", "sc.exe stop W3SVC", "wsl --unregister Ubuntu"),
        no=("sc query", "wsl -l"),
    ),
    rule(
        "service.stop",
        "ask",
        "nginx apachectl apache2ctl httpd caddy haproxy postfix exim unbound-control rndc named-control squid varnishadm asterisk"
        " pg_ctl pg_ctlcluster mongod redis-server php-fpm lpadmin cupsdisable lighttpd slapd dovecot freeswitch traefik",
        (
            value("-s", "stop|quit")
            | (
                Test(lambda view: view.name not in ("redis-server", "nginx"))
                & word("stop|graceful-stop|--shutdown|halt|abort|kill")
            )
            | (Test(lambda view: view.name == "lpadmin") & opt("-x"))
            | (Test(lambda view: view.name == "cupsdisable") & count(1))
        ),
        "stops a server",
        yes=("nginx -s stop", "apachectl stop", "pg_ctl stop -D data", "postfix stop", "rndc stop"),
        no=("nginx -t", "pg_ctl status", "nginx -s reload", "apachectl configtest"),
    ),
    rule(
        "service.stop",
        "ask",
        "asterisk varnishadm haproxyctl",
        text(r"core (?:stop|restart) now|\bstop\b|ban \. |disable server"),
        "stops a server",
        yes="asterisk -rx 'core stop now'",
        no="asterisk -rx 'core show uptime'",
    ),
    rule(
        "service.stop",
        "ask",
        "cupsreject cupsdisable purge-queue",
        count(1),
        "stops printing",
        yes="cupsdisable office",
        no="lpstat -p",
        at=lambda view: "",
    ),
)
"""``/etc/init.d/x stop`` is judged in system.py, by the program's path."""
