"""Rules: firewall, links and routes, TLS checks, opening the machine to others."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import HOLE
from tools.judge.rules._hosts import LOCAL_URL
from tools.judge.table import ANY, ActView, Test, count, operand, opt, rule, sub, text, value, word

_DEVELOPMENT = Regex(
    r"(?:\w+://)?(?:[^@/\s]*@)?(?:host\.docker\.internal|10\.0\.2\.2|\w+\.(?:local|test|internal))(?:[:/?].*)?", re.IGNORECASE
)
"""Names of servers under development, which often have self-signed certificates."""


def _elsewhere(view: ActView) -> bool:
    """Return whether the command may contact a host that is neither this machine nor a server under development.

    True also if no word is an address.
    """
    urls = [
        value.text
        for value in view.act.argv[1:]
        if "://" in value.text or re.fullmatch(rf"[\w.{HOLE}-]+\.\w+(?::\d+)?(?:/\S*)?", value.text)
    ]
    return not urls or any(LOCAL_URL.fullmatch(url) is None and _DEVELOPMENT.fullmatch(url) is None for url in urls)


_TLS_FILE = Regex(r"(?:^|/)(?:\.npmrc|\.yarnrc(?:\.yml)?|\.condarc|pip\.(?:conf|ini)|\.gitconfig|\.wgetrc|\.curlrc)$")
_TLS_OFF = Regex(
    r"(?:strict-?ssl|ssl_?verify|verify_ssl|check_certificate)\s*[:=]\s*[\"']?(?:false|0|no|off)\b|trusted-host\s*=|^\s*insecure\b",
    re.IGNORECASE | re.MULTILINE,
)


def _writes_tls_off(view: ActView) -> bool:
    """Return whether the text written to a tool's settings makes it trust any certificate."""
    act = view.act
    targets = [target.path.text for target in act.redirects if target.op.startswith(">")]
    targets += view.words if view.name in ("tee", "sponge") else []
    if not any(map(_TLS_FILE.search, targets)):
        return False
    return _TLS_OFF.search(view.joined) is not None or (act.stdin is not None and _TLS_OFF.search(act.stdin.text) is not None)


RULES = (
    rule(
        "security.tls-off",
        "ask",
        "@redirected tee sponge",
        Test(_writes_tls_off),
        "makes a program trust any certificate",
        yes=(
            "echo 'verify_ssl: false' >> ~/.condarc",
            "echo strict-ssl=false | tee -a .npmrc",
            "cat > .npmrc <<< 'strict-ssl=false'",
        ),
        no=("echo 'strict-ssl=true' >> .npmrc", "echo 'strict-ssl=false' >> notes.md", "grep strict-ssl=false .npmrc"),
    ),
    rule(
        "net.firewall",
        "ask",
        "iptables ip6tables iptables-legacy iptables-nft ip6tables-legacy ebtables arptables",
        word(r"-[FXPDZAINREt]+|--flush.*|--policy|--delete.*|--append|--insert|--replace|--new-chain|--zero|--rename-chain")
        & (word(r"-[FXPDZAINRE]|--(?:flush|policy|delete|append|insert|replace|new-chain|zero|rename-chain|delete-chain)")),
        "changes the firewall",
        yes=("iptables -F", "iptables -P INPUT ACCEPT", "iptables --flush", "iptables -t nat -F", "iptables -A INPUT -j DROP"),
        no=("iptables -S", "iptables -L -n", "iptables -C INPUT -j DROP", "iptables -t nat -L"),
    ),
    rule(
        "net.firewall",
        "ask",
        "iptables-restore ip6tables-restore iptables-apply nft-restore ipset",
        (Test(lambda view: view.name != "ipset") & ~opt("-t --test")) | sub("destroy|flush|del|add|create|restore|x|-X|-F|-A|-D"),
        "changes the firewall",
        yes=("iptables-restore rules.v4", "ipset destroy"),
        no=("ipset list", "iptables-restore -t a"),
    ),
    rule(
        "net.firewall",
        "ask",
        "nft",
        text(r"\b(?:flush|delete|destroy|add|insert|replace|create|reset)\b") | opt("-f --file") & ~opt("-c --check"),
        "changes the firewall",
        yes=("nft flush ruleset", "nft delete table inet filter", "nft -f rules.nft"),
        no=("nft list ruleset", "nft -c -f a.nft"),
    ),
    rule(
        "net.firewall",
        "ask",
        "ufw gufw",
        sub("disable|reset|delete|allow|default|insert|prepend|route|limit|deny|reject|enable|logging|reload")
        & ~opt("--dry-run"),
        "changes the firewall",
        yes=("ufw disable", "ufw reset", "ufw --force delete 1", "ufw allow 22"),
        no=("ufw status", "ufw show raw", "ufw --dry-run enable"),
        at=lambda view: view.operands()[0].text,
    ),
    rule(
        "net.firewall",
        "ask",
        "firewall-cmd firewall-offline-cmd",
        word(
            r"--(?:remove|add|panic-on|panic-off|set|delete|new|change|complete-reload|direct|passthrough|lockdown)[\w-]*(?:=.*)?"
        )
        & ~word("--list.*|--query.*|--get.*"),
        "changes the firewall",
        yes=("firewall-cmd --remove-service=ssh", "firewall-cmd --panic-on", "firewall-cmd --add-port=22/tcp"),
        no=("firewall-cmd --list-all", "firewall-cmd --state"),
    ),
    rule(
        "net.firewall",
        "ask",
        "pfctl ipfw ipf npfctl shorewall csf firehol socketfilterfw netsh",
        opt("-F -d -f -x -X") & ~opt("-n -s")
        | sub("flush|delete|disable|clear|stop|reset|add|-f|-q")
        | word(r"-f|--setglobalstate|--remove|--add|--unblockapp")
        | text(r"advfirewall (?:set|reset|firewall (?:add|delete))|state off"),
        "changes the firewall",
        yes=("pfctl -d", "pfctl -F all", "ipfw -q flush", "netsh advfirewall set allprofiles state off", "csf -x"),
        no=("pfctl -s rules", "ipfw list"),
    ),
    rule(
        "net.link",
        "ask",
        "ip",
        Test(
            lambda view: (
                any(word in ("del", "delete", "flush", "down", "replace", "change", "prepend") for word in view.words)
                or (
                    any(word in ("netns", "route", "r", "ro") for word in view.words[:3])
                    and any(word in ("add",) for word in view.words)
                )
            )
        )
        & ~word("show|list|ls|help|get"),
        "changes links, addresses or routes",
        yes=(
            "ip link delete eth0",
            "ip link set eth0 down",
            "ip route flush table main",
            "ip route del default",
            "ip addr flush dev eth0",
        ),
        no=("ip link show", "ip a", "ip route get 1.1.1.1", "ip addr add 10.0.0.1/24 dev lo"),
    ),
    rule(
        "net.link",
        "ask",
        "ifconfig ifdown ifup route arp brctl ethtool iw iwconfig rfkill wpa_cli tc vconfig dhclient bridge wg wg-quick"
        " ovs-vsctl netplan",
        (Test(lambda view: view.name == "ifdown") & (count(1) | opt("-a")))
        | (Test(lambda view: view.name == "ifconfig") & word("down|delete|-alias|remove|destroy"))
        | (Test(lambda view: view.name == "route") & word("del|delete|flush|-f"))
        | (Test(lambda view: view.name == "arp") & opt("-d -s"))
        | (Test(lambda view: view.name in ("brctl", "ovs-vsctl")) & word(r"del\w*|del-\w+|emer-reset"))
        | (Test(lambda view: view.name == "rfkill") & sub("block") & ~sub("block bluetooth|nfc|fm|gps"))
        | (Test(lambda view: view.name == "tc") & word("del|delete|replace|add"))
        | (Test(lambda view: view.name == "dhclient") & opt("-r -x"))
        | (Test(lambda view: view.name == "netplan") & sub("apply|set"))
        | (Test(lambda view: view.name == "wg-quick") & sub("down"))
        | (Test(lambda view: view.name == "ethtool") & opt("-s -K -E -f --reset --flash")),
        "disables links or changes routes",
        yes=(
            "ifconfig eth0 down",
            "ifdown eth0",
            "route del default",
            "tc qdisc add dev eth0 root netem loss 100%",
            "wg-quick down wg0",
        ),
        no=("ifconfig", "ifconfig eth0", "route -n", "tc qdisc show", "ethtool eth0", "arp -a"),
    ),
    rule(
        "net.link",
        "ask",
        "nmcli connmanctl networkctl wpa_cli resolvectl netsh",
        Test(
            lambda view: any(
                word
                in (
                    "down",
                    "off",
                    "del",
                    "delete",
                    "dele",
                    "disconnect",
                    "modify",
                    "mod",
                    "disable",
                    "revert",
                    "terminate",
                    "reset",
                )
                for word in view.words
            )
        )
        & ~word("show|list|status"),
        "disables or changes links",
        yes=("nmcli connection delete eth0", "nmcli networking off", "networkctl down eth0"),
        no=("nmcli device status", "nmcli connection show", "networkctl list"),
    ),
    rule(
        "security.tls-off",
        "ask",
        "npm pnpm yarn conda mamba pip composer bundle gem poetry helm cargo go choco pipx uv bower apt-get apt hg",
        text(
            r"\bstrict-ssl[ =]+(?:false|0)|ssl[_-]verify[ =]+(?:false|0|<false>)|\bcafile[ =]+(?:null|$)|disable-tls (?:true"
            r"|1)|BUNDLE_SSL_VERIFY_MODE[ =]0"
            r"|ssl_verify_mode[ :=]+0|\bcertificates\.\S+\.cert false|--(?:insecure|no-gpg-check|allow-unauthenticated"
            r"|allow-insecure-repositories)\b"
            r"|Acquire::(?:https::Verify-Peer|AllowInsecureRepositories)[= ]+\W*(?:false|true)|http\.check-revoke false"
            r"|secure-http false"
            r"|trusted-host[ =]+(?!localhost|127)\S|--allow-insecure-host[ =](?!localhost|127)\S|strictSsl[ =]+false"
            r"|enableStrictSsl[ =]+false"
        ),
        "turns TLS or signature verification off",
        yes=(
            "npm config set strict-ssl false",
            "pip install --trusted-host index.example x",
            "conda config --set ssl_verify false",
            "apt-get install --allow-unauthenticated x",
        ),
        no=("npm config get strict-ssl", "npm install", "npm config set strict-ssl true"),
    ),
    rule(
        "security.tls-off",
        "ask",
        "curl",
        (opt("--insecure --proxy-insecure --doh-insecure --ssl-no-revoke") | word(r"-[a-zA-Z]*k[a-zA-Z]*")) & Test(_elsewhere),
        "requests data without verifying the host",
        yes=("curl -k https://x.test2.org/a", "curl --insecure https://example.net/a"),
        no=("curl -sk https://localhost:8443/health", "curl https://example.net", "curl -sSL https://example.net"),
    ),
    rule(
        "security.tls-off",
        "ask",
        "wget",
        opt("--no-check-certificate --no-hsts-never") & Test(_elsewhere),
        "requests data without verifying the host",
        yes="wget --no-check-certificate https://example.net/a",
        no="wget https://example.net/a",
    ),
    rule(
        "security.tls-off",
        "ask",
        "http https xh httpie",
        value("--verify", "no|false") | word("--verify=(?:no|false)"),
        "requests data without verifying the host",
        yes="http --verify=no https://example.net",
        no="http https://example.net",
    ),
    rule(
        "security.tls-off",
        "ask",
        "ssh scp sftp rsync ssh-copy-id autossh",
        text(
            r"StrictHostKeyChecking[= ](?:no|off)\b.*UserKnownHostsFile[= ]/dev/null|UserKnownHostsFile[="
            r" ]/dev/null.*StrictHostKeyChecking[= ](?:no|off)\b"
        )
        & ~text(r"@?(?:localhost|127\.0\.0\.1)\b"),
        "connects without verifying the host",
        yes="ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null x@web",
        no="ssh -o BatchMode=yes web",
    ),
    rule(
        "net.expose",
        "ask-once",
        "ngrok cloudflared localtunnel lt bore frpc chisel tailscale zerotier-cli tmate gotty ttyd wetty sshuttle upterm"
        " teleconsole expose"
        " telebit serveo pagekite rathole gost ligolo iodine dnscat dnscat2 ptunnel proxychains-ng code teamviewer anydesk"
        " x11vnc vncserver"
        " xrdp tightvncserver x0vncserver rustdesk",
        (
            Test(
                lambda view: (
                    view.name
                    in (
                        "tmate",
                        "gotty",
                        "ttyd",
                        "wetty",
                        "upterm",
                        "teleconsole",
                        "lt",
                        "localtunnel",
                        "bore",
                        "frpc",
                        "chisel",
                        "x11vnc",
                        "iodine",
                        "dnscat",
                        "dnscat2",
                        "ptunnel",
                        "gost",
                        "ligolo",
                        "rathole",
                        "pagekite",
                        "serveo",
                        "expose",
                        "telebit",
                        "vncserver",
                        "tightvncserver",
                        "x0vncserver",
                        "rustdesk",
                        "anydesk",
                        "teamviewer",
                    )
                )
            )
            & ~sub("list|ls|status|version|show-sessions|ps|verify|completion|token|help")
            & ~word("--?kill|--?list|-v|-V")
            & ~(Test(lambda view: view.name == "chisel") & sub("client") & ~operand(r"(?:.*\|)?R:.*"))
        )
        | (
            Test(lambda view: view.name in ("ngrok", "cloudflared", "code"))
            & sub("http|tcp|tls|start|tunnel|access")
            & ~sub("tunnel login|list|info|token|diag|help")
        )
        | (Test(lambda view: view.name in ("tailscale",)) & ((sub("funnel|up|serve") & ~opt("--shields-up")) | opt("--ssh")))
        | (Test(lambda view: view.name == "zerotier-cli") & sub("join")),
        "exposes this machine to others",
        yes=(
            "ngrok http 8080",
            "cloudflared tunnel --url localhost:80",
            "ttyd -i eth0 bash",
            "tailscale up --ssh",
            "chisel client x.test R:2222:localhost:22",
        ),
        no=(
            "tailscale status",
            "ngrok --help",
            "code .",
            "cloudflared tunnel list",
            "expose token abc",
            "frpc verify -c frpc.toml",
            "ttyd -v",
            "vncserver --kill :1",
            "chisel client example.com:8080 5432:db:5432",
        ),
    ),
    rule(
        "net.expose",
        "ask",
        "systemctl service",
        (sub("start|enable") & operand(r"(?:sshd?|telnet|vsftpd|xrdp|vncserver|rsh|rlogin|tftp)(?:\.s\w+)?", 1)) & opt("--now"),
        "exposes this machine to others",
        yes="systemctl enable --now telnet.socket",
        no="systemctl status sshd",
    ),
    rule(
        "net.expose",
        "ask",
        "ssh autossh",
        (opt("-R") | value("-o", "RemoteForward.*")) & ANY,
        "exposes this machine to another host",
        yes="ssh -R 2222:localhost:22 -N tunnel@203.0.113.5",
        no="ssh -L 8080:localhost:80 web",
    ),
    rule(
        "net.expose",
        "ask",
        "xhost",
        word(r"\+.*"),
        "lets others read and control this screen",
        yes=("xhost +", "xhost +local:"),
        no=("xhost", "xhost -"),
    ),
    rule(
        "net.attack",
        "ask",
        "slowloris arpspoof ettercap bettercap aireplay-ng mdk4 hydra medusa ncrack responder sqlmap msfconsole msfvenom"
        " psexec.py wmiexec.py smbexec.py atexec.py dcomexec.py secretsdump.py ntlmrelayx.py addcomputer.py reg.py"
        " mitmf dsniff macof yersinia goldeneye patator dnsspoof evilginx crackmapexec nxc netexec wifite reaver",
        (count(1) | ANY)
        & ~(
            word("--help|--list-options|--list")
            | (Test(lambda view: view.name != "medusa") & word("-h"))
            | (Test(lambda view: view.name == "medusa") & word("-d|-q"))
            | (Test(lambda view: view.name in ("nxc", "netexec", "crackmapexec")) & word("-L|--list-modules|--options"))
            | (Test(lambda view: view.name == "msfvenom") & opt("-l"))
        ),
        "attacks hosts or passwords",
        yes=(
            "hydra -l root -P p.txt ssh://10.0.0.1",
            "nxc smb 10.0.0.0/24 -d CORP -u a -p b",
            "medusa -h x.test -u root -P p -M ssh",
        ),
        no=("hydra -h", "nxc smb -L", "medusa -M ssh -q"),
    ),
)
