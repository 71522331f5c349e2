"""Rules: tools of particular systems and products, such as servers' control programs, set-top boxes and desktops."""

from __future__ import annotations

from tools.judge.table import ANY, ActView, Test, count, nth_operand, operand, opt, rule, sub, text, value, word


def _named(names: str) -> Test:
    wanted = frozenset(names.split())
    return Test(lambda view: view.name in wanted)


def _first(view: ActView) -> str:
    return nth_operand(1)(view)


RULES = (
    rule(
        "power.off",
        "block",
        "i3exit gdm-stop kodi-send dnf dnf5 updatectl steamos-factory-reset bootctl xfce4-session-logout mate-session-save"
        " lxqt-leave sbopkg-reboot"
        " systemd-soft-reboot ucsreboot grub2-reboot-now",
        (
            _named("i3exit lxqt-leave xfce4-session-logout mate-session-save")
            & word(r"(?:--)?(?:shutdown|reboot|halt|hibernate|suspend|shutdown-dialog)")
        )
        | (_named("kodi-send") & text(r"\b(?:Reboot|Powerdown|ShutDown|Suspend|Hibernate)\b"))
        | (_named("dnf dnf5") & sub("system-upgrade|offline|offline-upgrade|offline-distrosync") & operand("reboot", 1))
        | (_named("updatectl") & opt("--reboot"))
        | (_named("bootctl") & sub("reboot-to-firmware") & operand("true|yes|1", 1))
        | _named("steamos-factory-reset"),
        "turns the machine off, or resets it",
        yes=("i3exit reboot", "dnf system-upgrade reboot", "kodi-send -a Reboot"),
        no=("i3exit lock", "dnf list", "steamos-factory-reset --help"),
    ),
    rule(
        "service.stop",
        "ask",
        "gitlab-ctl gitlab-runner AdGuardHome bitcoin-cli daemon firejail pve-firewall fwconsole neo4j neo4j-admin puppet"
        " tuned-adm portablectl"
        " zimbra zmcontrol plesk cpanel whmapi1 omv-salt jboss-cli.sh jboss-cli catalina catalina.sh startup.sh shutdown.sh"
        " asadmin wsadmin"
        " elasticsearch-service kibana-service rabbitmq-server solr activemq nifi logstash nexus sonar jenkins-cli tomcat"
        " zkserver zkServer.sh"
        " hadoop-daemon stop-dfs stop-all stop-yarn start-stop-daemon hbase-daemon nomad consul vault systemd-nspawn svcadm",
        (
            sub(
                "stop|kill|shutdown|disable|uninstall|detach|cleanse|deregister|unregister|server|halt|maintenance|leave"
                "|force-leave|off|stop-domain|terminate"
            )
            & ~(sub("server") & ~operand("stop", 1))
            & ~_named("puppet daemon firejail start-stop-daemon vault")
        )
        | (_named("puppet") & opt("--disable"))
        | (_named("daemon start-stop-daemon") & opt("--stop -K --retry"))
        | (_named("firejail") & opt("--shutdown"))
        | (_named("AdGuardHome") & value("--service -s", "stop|uninstall"))
        | _named("stop-dfs stop-all stop-yarn")
        | (_named("jboss-cli.sh jboss-cli") & text(r"\bshutdown\b|\bundeploy\b"))
        | (_named("hadoop-daemon hbase-daemon") & word("stop")),
        "stops or removes a service",
        yes=(
            "gitlab-ctl stop",
            "start-stop-daemon --stop --name x",
            "puppet agent --disable",
            "neo4j-admin server stop",
            "svcadm disable ssh",
        ),
        no=("gitlab-ctl status", "solr status", "neo4j-admin server status", "start-stop-daemon --status --name x"),
        at=_first,
    ),
    rule(
        "service.stop",
        "ask",
        "squid apache2 dovecot-ctl squid3 exim4 monit rspamadm unbound-control nsd-control knotc pdns_control keepalived",
        value("-k", "shutdown|kill|interrupt|stop|graceful-stop") | sub("stop|shutdown|quit|kill|terminate"),
        "stops a server",
        yes=("squid -k shutdown", "unbound-control stop"),
        no=("squid -k parse", "unbound-control status"),
    ),
    rule(
        "machine.stop",
        "ask",
        "machinectl lxc-stop lxc-destroy qm pct virt-install quickemu multipass limactl colima utmctl prlctl vmrun tart anka orb",
        (_named("machinectl") & sub("terminate|kill|poweroff|reboot|remove|clean|disable|stop"))
        | (_named("lxc-stop lxc-destroy") & count(1))
        | (
            _named("qm pct")
            & sub("des|dest|destroy|shu|shutdown|sto|stop|del|delsnapshot|rollback|unlink|reset|reboot|suspend|res")
        )
        | (_named("quickemu") & opt("--delete-vm --delete-disk"))
        | (_named("multipass limactl colima tart anka orb") & sub("delete|purge|rm|factory-reset|prune|reset"))
        | (
            _named("vmrun prlctl utmctl")
            & word("deleteVM|delete|revertToSnapshot|stop|suspend|reset|deleteSnapshot|kill|snapshot-delete|unregister")
        ),
        "stops or deletes a virtual machine",
        yes=("machinectl poweroff web", "qm des 100 --purge", "multipass delete --purge x", "lxc-destroy web"),
        no=("machinectl list", "qm list", "multipass ls", "limactl list"),
        at=_first,
    ),
    rule(
        "device.wipe",
        "block",
        "ndctl rpi-imager caligula balena etcher mstflint ipmctl daxctl",
        (_named("ndctl") & sub("destroy-namespace|sanitize-dimm|create-namespace|zero-labels|overwrite"))
        | (_named("rpi-imager caligula balena etcher") & operand(r"/dev/.*") & (opt("--cli -o --drive") | sub("burn|local")))
        | (_named("ipmctl") & sub("delete|create")),
        "writes or wipes a disk",
        yes=("ndctl destroy-namespace all", "rpi-imager --cli a.img /dev/sdb"),
        no=("ndctl list", "rpi-imager --version"),
    ),
    rule(
        "device.crypt",
        "ask",
        "systemd-cryptenroll blkpr lvmpersist gpg-card fprintd-delete rpmkeys clevis fscrypt sedutil-cli veracryptctl zfskeys",
        opt(
            "--wipe-slot --delete --yesIreallywanttoERASEALLmydatausingthePSID --revertTPer --revertNoErase --PSIDrevert -c"
            " --erase"
        )
        & ~word("--checksig")
        | sub("factory-reset|remove|unbind|metadata|purge|luks") & ~word("list|dump")
        | _named("fprintd-delete") & count(1),
        "destroys keys or locks a volume",
        yes=("systemd-cryptenroll --wipe-slot empty /dev/sda2", "gpg-card factory-reset", "rpmkeys --delete abc"),
        no=("rpmkeys --list", "clevis luks list -d /dev/sda1"),
    ),
    rule(
        "system.setting",
        "ask",
        "uci steamos-readonly kwriteconfig6 synopkg pivpn raspi-config ubnt-systool nvram-set esxcli vim-cmd omreport racadm xe",
        (_named("uci") & sub("delete|commit|import"))
        | (_named("steamos-readonly") & sub("disable"))
        | (_named("synopkg pivpn") & sub("uninstall|revoke|stop|remove"))
        | (
            _named("esxcli vim-cmd xe racadm")
            & text(
                r"\b(?:shutdown|delete|destroy|remove|unregister|power\.off|vmsvc/(?:destroy|power\.\w*off|unregister)"
                r"|vm-(?:destroy|uninstall|shutdown)|sr-(?:destroy|forget)"
                r"|clearlog|clrsel|racreset|systemerase|set enabled=false|firewall set)\b"
            )
        ),
        "changes the system's state",
        yes=("uci delete network.wan", "vim-cmd vmsvc/destroy 12", "steamos-readonly disable"),
        no=("uci show", "uci set a.b.c=d", "vim-cmd vmsvc/getallvms", "xe vm-list"),
    ),
    rule(
        "net.link",
        "ask",
        "iw usbip vpnc-disconnect warp-cli tailscale zerotier-cli openvpn strongswan ipsec swanctl openfortivpn wpa_cli",
        (_named("iw") & word("del|disconnect|leave"))
        | (_named("ipsec swanctl") & word("stop|down|--terminate|purge|-t"))
        | (_named("tailscale") & sub("down|logout"))
        | (_named("zerotier-cli") & sub("leave")),
        "disables a network link",
        yes=("iw dev wlan0 del", "ipsec stop"),
        no=("iw dev", "ipsec status", "warp-cli status"),
    ),
    rule(
        "kernel.module",
        "ask",
        "dkms akmods depmod vkpurge kernelstub dracut",
        (_named("dkms") & sub("remove|uninstall|install|autoinstall|unbuild"))
        | (_named("vkpurge") & sub("rm"))
        | (_named("akmods") & opt("--force")),
        "changes or removes parts of the kernel",
        yes=("dkms remove -m x -v 1 --all", "vkpurge rm all"),
        no="dkms status",
    ),
    rule(
        "net.expose",
        "ask-once",
        "chromium chromium-browser google-chrome brave microsoft-edge chrome",
        word(r"--remote-debugging-address=(?!127|localhost).*"),
        "lets other hosts control a browser",
        yes="chromium --remote-debugging-address=0.0.0.0",
        no=("chromium --headless --disable-gpu http://localhost:3000", "chromium --remote-debugging-port=9222"),
    ),
    rule(
        "device.erase-phone",
        "ask",
        "idevicerestore cfgutil idevicebackup idevicebackup2 fastbootd odin heimdall ideviceinstaller",
        (_named("idevicerestore") & ANY)
        | (_named("cfgutil") & sub("erase|restore"))
        | (_named("idevicebackup idevicebackup2") & sub("restore|erase"))
        | (_named("heimdall") & sub("flash"))
        | opt("-U --uninstall"),
        "wipes or overwrites an attached phone",
        yes=("idevicerestore -e a.ipsw", "cfgutil erase"),
        no=("cfgutil list", "idevicebackup2 backup x"),
    ),
)
