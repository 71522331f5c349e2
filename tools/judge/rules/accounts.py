"""Rules: users, groups, passwords, root rights."""

from __future__ import annotations

from tools.judge.table import ActView, Test, count, last, opt, rule, sub, text, word


def _account(view: ActView) -> str:
    given = last(view)
    return given[0].text if given else ""


_CHANGES = "changes users, groups or their rights"

RULES = (
    rule(
        "account.change",
        "ask",
        "useradd adduser userdel deluser usermod groupadd addgroup groupdel delgroup groupmod gpasswd chpasswd chgpasswd"
        " newusers luseradd"
        " luserdel lusermod grpconv pwconv pwunconv grpunconv groupmems rmuser sysadminctl samba-tool smbpasswd pdbedit"
        " htpasswd-system"
        " systemd-sysusers homectl ipa ldapdelete ldapmodify ldapadd ldappasswd realm kadmin kadmin.local saslpasswd2 newusers",
        (count(1) | opt("-d -r -a -x"))
        & (
            Test(lambda view: view.name not in ("homectl", "samba-tool", "pdbedit", "realm", "ipa"))
            | text(r"\b(?:create|remove|update|passwd|delete|add|lock|setpassword|join|leave|del|mod)\b|-x|-a")
        )
        | Test(lambda view: view.name in ("chpasswd", "chgpasswd", "newusers", "pwunconv", "grpunconv", "ldapmodify", "ldapadd")),
        _CHANGES,
        yes=("usermod -aG sudo dev", "userdel bob", "useradd x", "chpasswd", "gpasswd -a bob docker", "deluser --remove-home x"),
        no=("id dev", "useradd --help", "groups dev", "homectl list"),
        at=_account,
    ),
    rule(
        "account.change",
        "ask",
        "useradd",
        opt("-D") & count(1),
        _CHANGES,
        yes="useradd -D -s /bin/sh x",
        no="useradd --help",
    ),
    rule(
        "account.change",
        "ask",
        "pw",
        sub("useradd|userdel|usermod|groupadd|groupdel|groupmod|lock|unlock|user|group"),
        _CHANGES,
        yes="pw userdel bob",
        no="pw usershow bob",
    ),
    rule(
        "account.change",
        "ask",
        "dscl dseditgroup dsenableroot sysadminctl",
        word(
            r"-create|-delete|-append|-passwd|-merge|-change|create|delete|append|passwd|-o|-d|-deleteUser|-addUser"
            r"|-resetPasswordFor|edit"
        )
        & ~text(r"-o (?:checkmember|read)")
        | Test(lambda view: view.name == "dsenableroot"),
        _CHANGES,
        yes=("dscl . -delete /Users/bob", "dseditgroup -o edit -a bob -t user admin"),
        no=("dscl . -list /Users", "dscl . -read /Users/bob"),
    ),
    rule(
        "account.password",
        "ask",
        "passwd yppasswd",
        ~(opt("-S --status") | word("--help")),
        "changes or removes a password",
        yes=("passwd -d admin", "passwd", "passwd root"),
        no=("passwd -S", "passwd --status bob"),
        at=_account,
    ),
    rule(
        "account.change",
        "ask",
        "chage",
        (count(1) | opt("-E -d")) & ~opt("-l --list"),
        "changes when a password or an account expires",
        yes="chage -E 0 bob",
        no="chage -l bob",
        at=_account,
    ),
    rule(
        "account.change",
        "ask",
        "chsh vipw vigr",
        count(1) | opt("-s --shell") | (Test(lambda view: view.name in ("vipw", "vigr")) & ~opt("-V -h")),
        "changes an account",
        yes=("chsh -s /bin/zsh", "vipw"),
        no=("chsh -l", "chsh --list-shells"),
    ),
    rule(
        "account.password",
        "ask",
        "systemd-firstboot",
        word(r"--(?:delete-root-password|root-password.*|force|reset|prompt-root-password|setup-machine-id)"),
        "changes root's password or the system's initial settings",
        yes="systemd-firstboot --delete-root-password",
        no="systemd-firstboot --help",
    ),
    rule(
        "account.sudo",
        "ask-once",
        "visudo",
        ~opt("-c --check -V"),
        "changes who may act as root",
        yes=("visudo", "visudo -f /etc/sudoers.d/x"),
        no=("visudo -c", "visudo -cf a", "visudo -V"),
    ),
    rule(
        "account.change",
        "ask",
        "net",
        sub("user|localgroup|group|accounts") & word(r"(?i:/add|/delete|/active:\w+|/domain)"),
        _CHANGES,
        yes="net user bob pw /add",
        no="net user",
    ),
    rule(
        "account.change",
        "ask",
        "loginctl",
        sub("enable-linger|disable-linger"),
        "changes whether a user's services run without a session",
        yes="loginctl enable-linger dev",
        no="loginctl list-users",
    ),
    rule(
        "account.keys",
        "ask",
        "gpg gpg2",
        word(
            r"--delete-(?:secret-)?(?:and-public-)?keys?(?:=.*)?|--delete-secret-keys|--gen-revoke|--delete-secret-and-public-key"
        ),
        "deletes keys",
        yes="gpg --delete-secret-keys ABC",
        no=("gpg --list-keys", "gpg --verify a.sig"),
    ),
    rule(
        "account.keys",
        "ask",
        "pass gopass passage bw op vault lpass keepassxc-cli secret-tool rbw kwallet-query keyctl ykman yubikey-manager"
        " pkcs11-tool",
        (Test(lambda view: view.name in ("pass", "gopass", "passage")) & sub("rm|delete|remove"))
        | (Test(lambda view: view.name in ("bw", "lpass", "keepassxc-cli", "rbw")) & sub("delete|rm|remove|purge"))
        | (Test(lambda view: view.name == "op") & text(r"\b(?:delete|remove)\b"))
        | (Test(lambda view: view.name == "secret-tool") & sub("clear"))
        | (Test(lambda view: view.name == "keyctl") & sub("clear|unlink|revoke|purge|invalidate|reap"))
        | (Test(lambda view: view.name in ("ykman", "yubikey-manager")) & text(r"\b(?:reset|delete)\b"))
        | word("--delete-object|--init-token"),
        "deletes secrets",
        yes=("pass rm -r work", "op item delete x", "ykman piv reset"),
        no=("pass ls", "op item list", "bw list items"),
    ),
)
