"""Rules: package managers. Removing packages that the system needs, withdrawing releases, trusting unsigned packages."""

from __future__ import annotations

from tools.judge.rules._program import MANY, Program
from tools.judge.table import Test, first_operand, operand, opt, rule, text, word

_SYSTEM = "removes packages from the system"
_TRUST = "installs unsigned packages, or trusts a new source"
apt = Program("-o -c -t --option --config-file --target-release -a --host-architecture")
dnf = Program("-c --config --installroot --releasever --enablerepo --disablerepo -x --exclude --setopt --forcearch")
registry = Program("--registry --otp --tag --token --index --manifest-path --config --prefix --workspace -w")
pip = Program("--proxy --index-url -i --python --cache-dir --log --timeout")
_IN_PROJECT = Test(lambda view: view.name in ("npm", "pnpm", "yarn", "cargo"))
"""Test for programs that remove packages of a project. The project's files list them, so they can be installed again."""

_APT_DRY = opt("-s --simulate --just-print --dry-run --no-act --recon --print-uris --download-only")
_DNF_DRY = text(r"--assumeno|--downloadonly|--setopt=tsflags=test")
_NO_VERIFY = text(
    r"--trusted-host\b|--nogpgcheck|--no-gpg-checks?|--no-gpg-check|--allow-unauthenticated"
    r"|--force-yes|--allow-insecure-repositories|--allow-untrusted"
    r"|AllowInsecureRepositories=(?:true|1)|APT::Get::AllowUnauthenticated=(?:true|1)"
    r"|Verify-Peer=false|gpgcheck=(?:0|false)|--nosignature|--nodigest"
    r"|--strict-ssl[= ]false|--no-check-sigs|--insecure-(?:repo|registry)\b|Check-Valid-Until=false|\[trusted=yes\]|--dangerous\b"
)

RULES = (
    rule(
        "package.remove",
        "ask",
        "apt apt-get aptitude nala apt-fast",
        apt("remove|purge|autoremove|autopurge|erase") & ~_APT_DRY
        | (apt("install|dist-upgrade|full-upgrade") & (operand(r"[\w.+]+-") | text("--allow-remove-essential"))),
        _SYSTEM,
        at=apt.at("remove|purge|autoremove|autopurge", first_operand),
        yes=(
            "apt-get remove -y openssh-server",
            "apt purge nginx",
            "apt-get -o x=y autoremove --purge",
            "apt-get install -y curl wget-",
        ),
        no=("apt-get install -y remove", "apt-get -s remove nginx", "apt list --installed", "apt-get clean"),
    ),
    rule(
        "package.remove",
        "ask",
        "dnf yum microdnf tdnf zypper urpme dnf4 dnf5 rpm-ostree transactional-update",
        (
            dnf("remove|erase|autoremove|rm|uninstall")
            | dnf("history undo|rollback")
            | dnf("module remove|reset|disable")
            | dnf("group|grp|groups remove")
            | dnf("cleanup", opt("-b -r -p"))
        )
        & ~_DNF_DRY
        & ~opt("-D --dry-run"),
        _SYSTEM,
        at=dnf.at("remove|erase|rm", first_operand),
        yes=("dnf remove -y httpd", "yum erase glibc", "zypper rm nginx", "dnf history undo 4", "rpm-ostree uninstall nginx"),
        no=("dnf install -y httpd", "dnf list", "zypper se rm", "dnf clean all", "dnf remove --assumeno httpd"),
        effect="outside",
    ),
    rule(
        "package.remove",
        "ask",
        "rpm",
        (opt("-e --erase") & ~opt("-q -V --query --test --eval -E"))
        | (opt("-U -F --upgrade -i --install --freshen") & text(r"--nodeps|--oldpackage") & ~opt("-q --query -V --test"))
        | opt("--rebuilddb --initdb --setperms --setugids --restore"),
        _SYSTEM,
        yes=("rpm -e --nodeps glibc", "rpm -ev nginx", "rpm -Uvh --force --nodeps x.rpm"),
        no=("rpm -qa", "rpm -ivh x.rpm", "rpm -qe", "rpm -e --test nginx"),
    ),
    rule(
        "package.remove",
        "ask",
        "dpkg",
        (
            opt("-r -P --remove --purge")
            & ~opt("--no-act --simulate --get-selections -l -L -S -s -i --install -c -I --recursive -R")
        )
        | text(
            r"--force-(?:all|depends|remove-(?:essential|reinstreq|protected)|overwrite\b)"
            r"|--set-selections|--clear-(?:avail|selections)"
        ),
        _SYSTEM,
        yes=("dpkg -r nginx", "dpkg --purge --force-all libc6", "dpkg -i --force-overwrite x.deb"),
        no=("dpkg -l", "dpkg -i x.deb", "dpkg -L nginx", "dpkg --simulate -r nginx"),
    ),
    rule(
        "package.remove",
        "ask",
        "pacman yay paru pamac trizen pikaur",
        (opt("-R --remove") & ~opt("-Q -S -F -p --print -h --query --sync"))
        | (Test(lambda view: view.name == "pamac") & Program()("remove"))
        | text(r"--overwrite '?\*"),
        _SYSTEM,
        yes=("pacman -Rns linux", "yay -R --noconfirm nginx", "pamac remove nginx", "pacman -S --overwrite '*' glibc"),
        no=("pacman -Syu", "pacman -Qs linux", "pacman -S nginx", "pacman -Rp linux"),
    ),
    rule(
        "package.remove",
        "ask",
        "apk xbps-remove opkg emerge eopkg slackpkg removepkg pkg pkg_delete pkgin swupd snap"
        " flatpak pkcon port equo xbps-pkgdb zap tazpkg guix",
        (
            Program("-p --root --repository -C")(
                "del|remove|delete|rm|uninstall|bundle-remove|autoremove|purge|deinstall|remove-orphans|erase|revert"
            )
            | Test(
                lambda view: (
                    view.name in ("xbps-remove", "removepkg", "pkg_delete")
                    and not any(w in ("-n", "-O", "-warn", "-copy") for w in view.words)
                )
            )
            | (
                Test(lambda view: view.name == "emerge")
                & (opt("-C -c --unmerge --depclean --prune -P") & ~opt("-p --pretend -a --ask"))
            )
        )
        & ~opt("--simulate --pretend --dry-run")
        & ~(Test(lambda view: view.name == "flatpak") & word("--unused|--user")),
        _SYSTEM,
        yes=(
            "apk del openssh",
            "xbps-remove -R nginx",
            "emerge --unmerge sys-libs/glibc",
            "snap remove --purge lxd",
            "flatpak uninstall org.x.Y",
            "pkg delete -a",
        ),
        no=("apk add openssh", "snap list", "emerge -p --unmerge x", "flatpak list", "opkg list", "xbps-remove -O"),
        effect="outside",
    ),
    rule(
        "package.remove",
        "ask",
        "brew",
        Program()("uninstall|rm|remove", opt("--zap --force -f --ignore-dependencies") | MANY)
        | (Program()("autoremove|bundle", text(r"^(?:cleanup\b.*--force)")))
        | (Program()("bundle") & text(r"bundle cleanup\b.*(?:--force|-f\b)"))
        | (Program()("services stop|kill") & opt("--all")),
        "removes many packages, or their data too",
        yes=(
            "brew uninstall --force postgresql",
            "brew list | xargs brew uninstall",
            "brew bundle cleanup --force",
            "brew rm --zap app",
        ),
        no=("brew install jq", "brew list", "brew bundle", "brew cleanup -n"),
    ),
    rule(
        "package.remove",
        "ask",
        "pip pipx uv conda mamba micromamba npm pnpm yarn gem cargo",
        pip("uninstall|remove|rm|un", MANY & (opt("-g --global") | ~_IN_PROJECT))
        | pip("pip uninstall", MANY)
        | pip("env remove")
        | pip("uninstall-all")
        | (pip("remove", opt("--all")) & Test(lambda view: view.name in ("conda", "mamba", "micromamba")))
        | (Test(lambda view: view.name == "gem") & pip("uninstall", opt("-a --all")) & opt("-I -x --executables")),
        "removes packages in bulk",
        yes=(
            "pip freeze | xargs pip uninstall -y",
            "conda env remove -n prod",
            "conda remove -n prod --all",
            "pip uninstall -y $(pip freeze)",
        ),
        no=(
            "pip uninstall -y requests",
            "npm uninstall lodash",
            "conda remove scipy",
            "pip list",
            "npm ls -p | xargs npm uninstall",
            "uv remove requests",
        ),
    ),
    rule(
        "package.unauthenticated",
        "ask",
        "apt apt-get aptitude dnf yum zypper rpm pip pip3 npm yarn pnpm conda snap apk opkg pacman dpkg uv microdnf poetry gem",
        _NO_VERIFY & ~text(r"^(?:search|list|show|view|info)\b"),
        _TRUST,
        yes=(
            "apt-get install --allow-unauthenticated x",
            "dnf install --nogpgcheck ./x.rpm",
            "pip install --trusted-host x.test y",
            "apk add --allow-untrusted x.apk",
            "zypper --no-gpg-checks install x",
            "snap install --dangerous x.snap",
        ),
        no=("apt-get install -y curl", "pip install requests", "apk add curl"),
    ),
    rule(
        "package.unauthenticated",
        "ask",
        "npm yarn pnpm pip conda git poetry gem bundle composer cargo go bun",
        text(
            r"\bconfig\b.*(?:strict[-_]?ssl[ =]+(?:false|0)|ssl[-_]verify[ =]+(?:false|0)"
            r"|(?:global\.)?trusted-host|disable-tls[ =]+true|secure-http[ =]+false|sslVerify[ =]+(?:false|0))"
            r"|\b(?:certificates\.\S+\.cert|http-basic)\S* false|enableStrictSsl (?:false|0)|env -w"
            r" .*(?:GONOSUMDB|GOINSECURE|GOFLAGS=-insecure|GONOSUMCHECK|GOSUMDB=off)"
        ),
        "turns verification off",
        yes=(
            "npm config set strict-ssl false",
            "pip config set global.trusted-host x.test",
            "go env -w GOSUMDB=off",
            "conda config --set ssl_verify false",
        ),
        no=("npm config get strict-ssl", "npm config set fund false", "go env"),
    ),
    rule(
        "package.trust",
        "ask",
        "apt-key add-apt-repository apt-add-repository",
        ~opt("-h --help -l --list")
        & (Test(lambda view: view.name != "apt-key") | word("add|del|rm|remove|adv|update|net-update")),
        _TRUST,
        yes=("apt-key add key.gpg", "add-apt-repository -y ppa:x/y", "apt-key adv --recv-keys ABCD"),
        no=("apt-key list", "apt-key fingerprint"),
    ),
    rule(
        "package.trust",
        "ask",
        "dnf yum zypper rpm yum-config-manager dnf-config-manager flatpak pacman-key apk pkg",
        dnf("addrepo|ar")
        | dnf("copr enable")
        | dnf("config-manager", text(r"--add-repo|addrepo|gpgcheck"))
        | word("--add-repo|--add-repo=.*")
        | (Test(lambda view: view.name == "rpm") & opt("--import"))
        | (Test(lambda view: view.name == "pacman-key") & (opt("-a --add -r --recv-keys --lsign-key -d --delete")))
        | (Test(lambda view: view.name == "flatpak") & word("remote-add") & text("--no-gpg-verify")),
        _TRUST,
        yes=(
            "dnf config-manager --add-repo https://x.test/x.repo",
            "rpm --import https://x.test/key",
            "zypper ar https://x.test/r x",
            "dnf copr enable a/b",
        ),
        no=("dnf repolist", "zypper lr", "rpm -qa gpg-pubkey"),
    ),
    rule(
        "release.withdraw",
        "ask",
        "npm yarn pnpm cargo gem dart bun jsr vsce ovsx pod nuget dotnet luarocks hex mix",
        (
            registry("unpublish|yank|delete|retract|deprecate", ~opt("--undo -n --help --dry-run") & operand(".*"))
            | registry("owner|team|org|token|access|dist-tag|hook|nuget|trunk", operand("rm|remove|revoke|destroy|delete", at=0))
            | registry("owner", opt("-r --remove"))
            | registry("profile", operand("disable-2fa|disable-tfa", at=0))
            | registry("hex.retire|hex.publish", word("--revert.*") | operand(".+"))
        )
        & ~registry("delete", ~operand(".+")),
        "withdraws a release, or a user's right to it",
        yes=(
            "npm unpublish x --force",
            "cargo yank --version 1.0.1 x",
            "gem yank x -v 1.0",
            "npm owner rm bob x",
            "npm deprecate x@1 old",
        ),
        no=("npm ci", "npm publish", "cargo yank --undo x@1", "npm unpublish x --dry-run", "npm token list", "npm c delete key"),
        dry=False,
    ),
    rule(
        "package.remove",
        "ask",
        "nix-collect-garbage nix nix-env nix-store",
        (Test(lambda view: view.name == "nix-collect-garbage") & word("-d|--delete-old") & ~opt("--dry-run"))
        | Program()("profile wipe-history")
        | word("--delete-generations"),
        "deletes old generations, so a rollback becomes impossible",
        yes=("nix-collect-garbage -d", "nix-env --delete-generations old", "nix profile wipe-history"),
        no=("nix profile list", "nix-env -q", "nix build"),
    ),
    rule(
        "package.remove",
        "ask",
        "update-alternatives",
        word("--remove|--remove-all"),
        _SYSTEM,
        yes="update-alternatives --remove python /usr/bin/python3.12",
        no="update-alternatives --list python",
    ),
    rule(
        "package.remove",
        "ask",
        "rustup nvm pyenv rbenv asdf sdk mise volta",
        Program()("self uninstall") | Program()("implode"),
        "removes a toolchain with all its versions",
        yes=("rustup self uninstall -y", "mise implode"),
        no=("rustup toolchain list", "nvm uninstall 18", "pyenv versions"),
    ),
)
