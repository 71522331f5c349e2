"""Rules: kernel, boot, firmware, logs, the system's own protection and settings."""

from __future__ import annotations

from toolcrib.contract.regex import Regex
from tools.judge.table import ANY, ActView, Test, count, first_operand, nth_operand, operand, opt, rule, sub, text, value, word

_INIT_SCRIPT = Regex(r"/etc/(?:rc\.d/)?(?:init\.d|rc\d?\.d)/[^/]+")


def _init_script(view: ActView) -> bool:
    return bool(view.act.argv) and _INIT_SCRIPT.fullmatch(view.act.argv[0].text) is not None and "stop" in view.words[:1]


def _one_setting(view: ActView) -> bool:
    """Return whether the command resets a setting of a desktop program to its default."""
    return view.name in ("dconf", "gsettings") and sub("reset")(view)


RULES = (
    rule(
        "service.stop",
        "ask",
        "@by-path",
        Test(_init_script),
        "stops a service",
        yes="/etc/init.d/nginx stop",
        no="/etc/init.d/nginx status",
        at=lambda view: view.name,
    ),
    rule(
        "kernel.module",
        "ask",
        "rmmod insmod kmodload kextload kextunload kmutil-load kldload kldunload",
        count(1),
        "loads or removes a part of the kernel",
        yes=("rmmod nf_tables", "insmod ./evil.ko"),
        no="lsmod",
        at=first_operand,
    ),
    rule(
        "kernel.module",
        "ask",
        "modprobe kmod",
        (count(1) | opt("-r --remove"))
        & ~sub("list|static-nodes")
        & ~opt("-n --dry-run --show --show-depends -D -c --showconfig --resolve-alias -R"),
        "loads or removes a part of the kernel",
        yes=("modprobe -r nf_tables", "modprobe pcspkr"),
        no=("modprobe -n x", "modprobe --show-depends ext4"),
    ),
    rule(
        "kernel.boot",
        "ask",
        "grub-install grub2-install update-grub update-grub2 grub-mkconfig grub2-mkconfig grubby grub-set-default grub-reboot"
        " grub2-set-default"
        " grub-editenv mkinitcpio dracut update-initramfs lilo bootctl efibootmgr kernelstub kernel-install sbctl mokutil"
        " syslinux extlinux grub-bios-setup"
        " installkernel mkinitramfs refind-install bless nvram raspi-config rpi-update bcdedit sicherboot",
        ~(
            word("list|status|show|print|kernels|is-installed|is-signed|verify|list-enrolled|list-files|inspect")
            | opt("--info --list --list-modules --sb-state --list-enrolled -p --print -L -H -V --default-kernel --default-index")
            | word(r"-\?")
            | (Test(lambda view: view.name != "kernelstub") & opt("-l"))
            | (Test(lambda view: view.name == "kernelstub") & opt("-c --dry-run"))
            | (Test(lambda view: view.name == "kernel-install") & ~count(1))
            | (Test(lambda view: view.name == "mkinitcpio") & ~opt("-p -P --preset --allpresets -g --generate -U --uki"))
        )
        & (
            Test(
                lambda view: (
                    view.name
                    not in ("efibootmgr", "mokutil", "grubby", "bootctl", "nvram", "grub-mkconfig", "grub2-mkconfig", "bless")
                )
            )
            | (Test(lambda view: view.name == "efibootmgr") & word("-[BbcoNOnDd]+"))
            | (Test(lambda view: view.name in ("grub-mkconfig", "grub2-mkconfig")) & opt("-o --output"))
            | (Test(lambda view: view.name == "mokutil") & word("-[dirRcP]"))
            | word(
                r"--delete.*|--create|--bootorder|--disable.*|--import|--reset|--remove.*|--args.*"
                r"|--update-kernel.*|--set-default.*"
            )
            | (Test(lambda view: view.name in ("nvram", "bless")) & (opt("-c -d --setBoot --folder") | word(r"\w[\w-]*=.*")))
            | sub("install|update|remove|set-default|set-oneshot")
        ),
        "changes how the machine boots",
        yes=(
            "grub-install /dev/sda",
            "efibootmgr -b 0001 -B",
            "update-initramfs -u",
            "mokutil --disable-validation",
            "grub-mkconfig -o /boot/grub/grub.cfg",
            "bootctl install",
        ),
        no=(
            "efibootmgr",
            "efibootmgr -v",
            "bootctl status",
            "mokutil --sb-state",
            "grubby --info=ALL",
            "grub-mkconfig",
            "mokutil -N",
            "mkinitcpio",
            "kernelstub -c",
        ),
    ),
    rule(
        "kernel.boot",
        "ask",
        "kexec",
        opt("-l --load -p -u"),
        "changes which kernel runs",
        yes="kexec -l /boot/vmlinuz",
        no="kexec --version",
    ),
    rule(
        "kernel.firmware",
        "ask",
        "flashrom fwupdmgr fwupdtool nvflash afulnx_64 flashcp firmwarepasswd mcumgr dfu-util rkdeveloptool fw_setenv setpci"
        " amidelnx"
        " ipmitool wrmsr chipsec st-flash esptool esptool.py fastboot heimdall edl msr-tools intelmetool ectool i2cset",
        opt("-w --write -E --erase") & Test(lambda view: view.name == "flashrom")
        | (Test(lambda view: view.name in ("st-flash", "esptool", "esptool.py")) & operand("erase|erase_flash|erase-flash"))
        | sub(
            "update|install|upgrade|downgrade|reinstall|activate|flash|erase|format|oem|unlock|wl|ef|db|install-blob|flashing|-w"
        )
        | (
            Test(lambda view: view.name in ("fw_setenv", "wrmsr", "setpci", "i2cset", "nvflash", "flashcp", "firmwarepasswd"))
            & (count(2) | opt("-setpasswd -delete"))
            & ~opt("-l")
        ),
        "changes firmware or hardware registers",
        yes=("flashrom -w bios.bin", "fwupdmgr update", "wrmsr 0x1a0 1", "st-flash erase", "fastboot flash boot boot.img"),
        no=("flashrom -r bios.bin", "flashrom -v bios.bin", "fwupdmgr get-devices", "fastboot devices"),
    ),
    rule(
        "kernel.setting",
        "ask",
        "sysctl",
        word(r"-w|--write|-p.*|--load.*|--system|[\w./-]+=.*") & ~opt("-n"),
        "changes a setting of the kernel",
        yes=("sysctl -w kernel.randomize_va_space=0", "sysctl net.ipv4.ip_forward=1", "sysctl -p"),
        no=("sysctl -a", "sysctl kernel.ostype", "sysctl -n hw.ncpu"),
    ),
    rule(
        "security.weaken",
        "ask",
        "setenforce aa-disable aa-teardown aa-complain aa-remove-unknown setsebool semodule apparmor_parser"
        " selinux-config-enforcing",
        (count(1) | Test(lambda view: view.name in ("aa-teardown", "aa-remove-unknown")) | opt("-R -r -d -i -B"))
        & ~(Test(lambda view: view.name == "setenforce") & operand("1|Enforcing", 0))
        & ~(Test(lambda view: view.name == "aa-remove-unknown") & opt("-n"))
        & ~(Test(lambda view: view.name == "semodule") & Test(lambda view: view.words in (["-R"], ["--reload"])))
        & ~(Test(lambda view: view.name == "apparmor_parser") & opt("-Q --skip-kernel-load -N --names") & ~opt("-R --remove")),
        "weakens the system's protection",
        yes=("setenforce 0", "setenforce Permissive", "aa-teardown", "setsebool -P x 1"),
        no=("getenforce", "setenforce 1", "semodule -l", "aa-remove-unknown -n", "apparmor_parser -p -Q profile"),
    ),
    rule(
        "security.weaken",
        "ask",
        "csrutil spctl fdesetup tpm2_clear xattr SetFile profiles kmutil systemextensionsctl",
        sub("disable|clear|authenticated-root|uninstall|reset|remove")
        | word("--master-disable|--disable|--global-disable|--add|-r?d|-c|-R")
        | Test(lambda view: view.name == "tpm2_clear"),
        "weakens the system's protection",
        yes=("csrutil disable", "spctl --master-disable", "xattr -d com.apple.quarantine a.app"),
        no=("csrutil status", "spctl --status", "xattr -l a"),
    ),
    rule(
        "security.weaken",
        "ask",
        "auditctl augenrules",
        word(r"-D|-d.*|-e.*|-W|--reset-\w+") & ~word("-e1") & ~value("-e", "[12]"),
        "turns auditing off",
        yes=("auditctl -D", "auditctl -e 0"),
        no=("auditctl -l", "auditctl -s", "auditctl -e 1"),
    ),
    rule(
        "security.weaken",
        "ask",
        "clamscan freshclam fail2ban-client aide rkhunter ossec-control wazuh-control falcon-sensor falconctl mdatp"
        " osqueryctl crowdsec cscli ufw-docker snort",
        sub("stop|unban|-d|uninstall|disable|delete")
        | (sub("set") & operand("unbanip", 2))
        | word("--disable|--remove")
        | text(r"real-time-protection --value disabled|decisions delete"),
        "turns protection off",
        yes=("fail2ban-client stop", "mdatp config real-time-protection --value disabled"),
        no="fail2ban-client status",
    ),
    rule(
        "security.weaken",
        "ask",
        "authselect authconfig pam-auth-update crypto-policies update-crypto-policies fips-mode-setup update-ca-certificates"
        " update-ca-trust"
        " trust certutil security",
        sub(
            "anchor|extract-compat|add-trusted-cert|remove-trusted-cert|delete-certificate|delete-keychain"
            "|set-keychain-settings|authorizationdb"
            "|delete-generic-password|delete-internet-password|default-keychain|add-certificates|select|disable-feature"
            "|delete-identity|trust-settings-import"
        )
        | word(r"--set|--disable|--remove|--force|--fresh|-A|-D|--disable\w*|--delete")
        # except a certificate without any trust, in a database in this folder
        & ~(Test(lambda view: view.name == "certutil") & value("-t", ",*") & value("-d", r"(?:sql:)?\.(?:/.*)?"))
        | Test(lambda view: view.name in ("update-ca-certificates", "update-ca-trust") and "check" not in view.words),
        "changes the system's trusted certificates",
        yes=(
            "update-crypto-policies --set LEGACY",
            "trust anchor evil.pem",
            "update-ca-certificates",
            "security add-trusted-cert -d r.pem",
        ),
        no=("update-crypto-policies --show", "trust list", "security find-certificate -a", "certutil -L -d ."),
    ),
    rule(
        "security.dump",
        "ask-once",
        "security",
        sub("dump-keychain|export|find-generic-password|find-internet-password|unlock-keychain")
        & (opt("-w -g -d -p") | sub("dump-keychain|export")),
        "reads secrets from the keychain",
        yes="security dump-keychain -d login.keychain",
        no="security list-keychains",
    ),
    rule(
        "log.erase",
        "ask",
        "journalctl",
        word(r"--vacuum-\w+(=.*)?|--rotate|--flush|--relinquish-var|--smart-relinquish-var|--setup-keys") & ~word("--help"),
        "erases or moves logs",
        yes=("journalctl --vacuum-time=1s", "journalctl --rotate", "journalctl --vacuum-size=1M"),
        no=("journalctl -u docker", "journalctl -f"),
        effect="outside",
    ),
    rule(
        "log.erase",
        "ask",
        "dmesg",
        opt("-C -c --clear --read-clear -D --console-off -n --console-level"),
        "erases the kernel's messages",
        yes=("dmesg -C", "dmesg --clear"),
        no=("dmesg", "dmesg -T", "dmesg --follow"),
        effect="outside",
    ),
    rule(
        "log.erase",
        "ask",
        "wevtutil utmpdump faillock lastlog logrotate savelog auditctl-clear aureport-clear pam_tally2 faillog log",
        sub("cl|clear-log|erase") | opt("-r --reset -C --clear -c --all --force -f -S --set"),
        "erases logs",
        yes=("wevtutil cl Security", "logrotate -f /etc/logrotate.conf", "lastlog --clear --user bob"),
        no=("lastlog", "logrotate -d a.conf"),
    ),
    rule(
        "log.erase",
        "ask",
        "history fc",
        word(r"-[a-z]*[cd][a-z]*|-[cd]\d*|clear|--clear|--delete.*"),
        "erases the shell's history",
        yes=("history -c", "history -d 5", "history -cw", "history clear"),
        no=("history 20", "history", "fc -l"),
    ),
    rule(
        "log.erase",
        "ask",
        "unset export set shopt declare setopt",
        operand(r"HIST(?:FILE|SIZE|FILESIZE)(?:=(?:0|/dev/null)?)?", flags=0)
        | (word(r"\+o") & operand("history"))
        | operand("HISTCONTROL=.*ignorespace.*|HISTIGNORE=\\*"),
        "turns the shell's history off",
        yes=("unset HISTFILE", "export HISTFILE=/dev/null", "set +o history", "export HISTSIZE=0"),
        no=("export HISTSIZE=10000", "unset FOO", "set -o history"),
    ),
    rule(
        "system.alternative",
        "ask",
        "update-alternatives alternatives dpkg-divert eselect dpkg-reconfigure dpkg-statoverride archlinux-java ldconfig",
        word(r"--(?:set|install|remove|remove-all|config|auto|force|add|divert|rename|set-selections)(?:=.*)?")
        | sub("set|unset")
        | (Test(lambda view: view.name == "dpkg-reconfigure") & count(1)),
        "changes which program a system name runs",
        yes=("update-alternatives --set editor /tmp/x", "dpkg-divert --rename /bin/ls"),
        no=("update-alternatives --list editor", "update-alternatives --display java"),
    ),
    rule(
        "system.setting",
        "ask",
        "hostnamectl timedatectl localectl hwclock date chronyd ntpdate networksetup scutil systemsetup nvram locale-gen"
        " pmset powercfg",
        sub("set-hostname|hostname|set-time|set-timezone|set-ntp|set-local-rtc|set-locale|set-keymap|set-chassis")
        & count(2)
        & ~(sub("set-ntp") & operand("on|true|yes|1", 1))
        | opt("--systohc --set -s -w") & Test(lambda view: view.name in ("hwclock", "date"))
        | word(r"-set\w+|--set|-remove\w+|-delete\w+|-a")
        & Test(lambda view: view.name in ("networksetup", "scutil", "systemsetup", "pmset"))
        | (Test(lambda view: view.name == "ntpdate") & count(1) & ~opt("-q -d")),
        "changes a setting of the system",
        yes=(
            "timedatectl set-ntp false",
            "date -s '2020-01-01'",
            "hostnamectl set-hostname x",
            "networksetup -setwebproxy Wi-Fi h 1",
        ),
        no=(
            "timedatectl status",
            "timedatectl set-ntp true",
            "date",
            "date +%s",
            "hostnamectl",
            "networksetup -listallnetworkservices",
        ),
        at=lambda view: (
            view.operands()[0].text if view.name in ("timedatectl", "hostnamectl", "localectl") and count(1)(view) else ""
        ),
    ),
    rule(
        "system.setting",
        "ask",
        "defaults gsettings dconf xfconf-query kwriteconfig5 kwriteconfig6 reg regedit",
        (
            sub("delete|write|import|reset-recursively|reset|load|add")
            & (Test(lambda view: view.name in ("defaults", "reg")) | sub("reset-recursively|reset|load"))
        )
        & ~(Test(_one_setting) & ~opt("-f"))
        | opt("-r --reset") & Test(lambda view: view.name == "xfconf-query"),
        "changes or deletes settings of programs",
        yes=(
            "defaults delete com.apple.dock",
            "defaults write com.apple.LaunchServices LSQuarantine -bool NO",
            "dconf reset -f /",
            "reg delete HKLM\\x /f",
        ),
        no=("defaults read", "gsettings get a b", "reg query x", "dconf reset /org/x/key"),
        at=nth_operand(1),
    ),
    rule(
        "system.setting",
        "ask",
        "debconf-set-selections systemd-machine-id-setup systemd-firstboot newaliases postconf postsuper postqueue"
        " nixos-rebuild nix-env"
        " nix-collect-garbage home-manager guix rpm-ostree ostree transactional-update",
        (
            Test(lambda view: view.name in ("debconf-set-selections", "systemd-machine-id-setup"))
            | sub("switch|boot|rollback|rebase|reset|cleanup|delete-generations")
            | (Test(lambda view: view.name == "postsuper") & opt("-d"))
            | (Test(lambda view: view.name == "postconf") & opt("-e -X"))
            | (Test(lambda view: view.name == "nix-env") & opt("--rollback --delete-generations -e --uninstall"))
            | (Test(lambda view: view.name == "nix-collect-garbage") & opt("-d --delete-old --delete-older-than"))
        )
        & ~Test(lambda view: view.name == "ostree" and "admin" not in view.words),
        "changes the system's state",
        yes=("postsuper -d ALL", "nixos-rebuild switch", "nix-collect-garbage -d"),
        no=("postconf", "nix-env -q", "nixos-rebuild build"),
    ),
    rule(
        "device.unlock",
        "ask",
        "adb",
        sub("reboot|root|remount|disable-verity|uninstall|sideload|wipe")
        | text(r"shell (?:su -c )?['\"]?(?:rm -r|pm (?:uninstall|clear)|wipe|reboot|mkfs|dd )"),
        "changes or wipes an attached phone",
        yes=("adb reboot", "adb shell rm -rf /sdcard", "adb uninstall a.b"),
        no=("adb devices", "adb logcat", "adb install a.apk"),
    ),
    rule(
        "power.watchdog",
        "ask",
        "wdctl watchdog stress-kernel crash",
        opt("-s --settimeout") | ANY & sub("trigger"),
        "arms a watchdog that restarts the machine",
        yes="wdctl -s 1",
        no="wdctl",
    ),
    rule(
        "schedule.limits",
        "ask",
        "cpupower turbostat cpufreq-set chcpu chmem numactl-online zramctl",
        sub("frequency-set|set")
        | opt("-d --disable -e --enable -c --configure -g --deconfigure -r --reset")
        & Test(lambda view: view.name in ("chcpu", "chmem", "zramctl", "cpufreq-set"))
        | value("-g --governor", ".+"),
        "disables processors or memory, or changes how they run",
        yes=("chcpu -d 2-3", "cpupower frequency-set -g powersave"),
        no=("cpupower frequency-info", "zramctl"),
    ),
)
