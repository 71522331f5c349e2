"""Tables of programs: their options and subcommands, and the variables that hold options or commands for them.

After an option, ``=`` means that it takes a value, ``?`` that the value must be attached, ``!`` that the program then makes a dry
run or prints its help. Words without a dash are modes (``options.Grammar``). ``+NAME`` includes another program's options.
"""

from __future__ import annotations

from collections.abc import Mapping

_HELP = "--help! --version!"
_GNU_COPY = (
    "-f --force -i --interactive -n --no-clobber -v --verbose -b --backup=? -S= --suffix= -t= --target-directory= -T"
    f" --no-target-directory --strip-trailing-slashes -u --update=? -Z --context=? --debug {_HELP}"
)
_MODES = f"-c --changes -f --silent --quiet -v --verbose -R --recursive --preserve-root --no-preserve-root --reference= {_HELP}"
_DOCKER = (
    "exact -c= --context= --config= -D --debug -H= --host= -l= --log-level= --tls --tlscacert= --tlscert= --tlskey= --tlsverify"
    " --help! -v! --version! --url= --connection= --root= --runroot= --namespace= --address= --snapshotter= --storage-opt="
    " --storage-driver="
)
_DOCKER_RUN = (
    "exact stops greedy -d --detach -i --interactive -t --tty --rm --init --privileged -P --publish-all --read-only"
    " --no-healthcheck --oom-kill-disable --sig-proxy --disable-content-trust -q --quiet --replace --rmi --rootfs --no-hosts"
    " --no-hostname --systemd? --http-proxy? --env-host --tls-verify? --use-aliases --service-ports --no-deps --build"
    " --quiet-pull --remove-orphans --quiet-build -T --no-TTY --use-api-socket --help!"
)
_DOCKER_EXEC = (
    "exact stops -d --detach --detach-keys= -e= --env= --env-file= -i --interactive --privileged -t --tty -u= --user= -w="
    " --workdir= --index= -T --no-TTY --no-tty -l --latest --help!"
)
_COMPOSE = (
    "exact -f= --file= -p= --project-name= --profile= --env-file= --project-directory= --ansi= --parallel= --progress="
    " --all-resources --compatibility --dry-run! --help! --version!"
)
_KUBECTL = (
    "exact -n= --namespace= --context= --kubeconfig= --cluster= --user= -s= --server= --as= --as-group= --as-uid= --token="
    " --cache-dir= --certificate-authority= --client-certificate= --client-key= --insecure-skip-tls-verify --request-timeout="
    " --tls-server-name= -v= --v= --password= --username= --profile= -h! --help!"
)
_KUBE_WRITES = (
    "-f= --filename= -k= --kustomize= -R --recursive -o= --output= -l= --selector= --field-selector= --field-manager= --all -A"
    " --all-namespaces --cascade=? --dry-run=?! --force --grace-period= --ignore-not-found --now --timeout= --wait"
)
_SSH = (
    "-4 -6 -A -a -C -f -G -g -K -k -M -N -n -q -s -T -t -V -v -X -x -Y -y -B= -b= -c= -D= -E= -e= -F= -I= -i= -J= -L= -l= -m= -O="
    " -o= -P= -p= -Q= -R= -S= -W= -w="
)
_TERRAFORM = "single -chdir= -help! --help! -version -h!"
_TERRAFORM_RUN = (
    "single -auto-approve -backup= -compact-warnings -destroy -lock -lock-timeout= -input= -no-color -parallelism= -refresh"
    " -refresh-only -replace= -state= -state-out= -target= -var= -var-file= -out= -help! --help! -h!"
)
_ANSIBLE = (
    "-i= --inventory= -e= --extra-vars= -l= --limit= -u= --user= -f= --forks= -M= --module-path= -t= --tags= --skip-tags="
    " --private-key= --key-file= --vault-id= --vault-password-file= -T= --timeout= -c= --connection= --become-user="
    " --become-method= -b --become -K -k -v --verbose --check! -D --diff --syntax-check! --list-hosts! --list-tasks!"
    " --list-tags! -h! --help! --version!"
)
_SU = (
    "-m -p --preserve-environment -w= --whitelist-environment= -g= --group= -G= --supp-group= -l --login -c= --command="
    f" --session-command= -f --fast -s= --shell= -P --pty -T --no-pty -h! -V! {_HELP}"
)
_SHELL_OPTIONS = "stops -c -e -f -i -l -n -p -r -s -t -u -v -x -a -b -h -m -B -C -D -E -H -P -T -o= -O= --rcfile= --init-file="
" --login"

OPTIONS: Mapping[str, str] = {
    # files
    "rm": "-r -R --recursive -f --force -i -I --interactive=? --one-file-system --no-preserve-root --preserve-root=? -d --dir -v"
    f" --verbose {_HELP}",
    "cp": "-a --archive --attributes-only --copy-contents -d -H -l --link -L --dereference -P --no-dereference -p --preserve=?"
    " --no-preserve= --parents -R -r --recursive --reflink=? --remove-destination --sparse= -s --symbolic-link -x"
    f" --one-file-system {_GNU_COPY}",
    "mktemp": f"-d --directory -u --dry-run -q --quiet -p= --tmpdir=? --suffix= -t {_HELP}",
    "mv": f"--exchange --no-copy {_GNU_COPY}",
    "ln": f"-d -F --directory -L --logical -P --physical -r --relative -s --symbolic {_GNU_COPY}",
    "install": "-c -C --compare -d --directory -D -g= --group= -m= --mode= -o= --owner= -p --preserve-timestamps -s --strip"
    f" --strip-program= --preserve-context {_GNU_COPY}",
    "chmod": f"-h --no-dereference --dereference -H -L -P {_MODES}",
    "chown": f"-h --no-dereference --dereference --from= -H -L -P {_MODES}",
    "chgrp": f"-h --no-dereference --dereference --from= -H -L -P {_MODES}",
    "truncate": f"-c --no-create -o --io-blocks -r= --reference= -s= --size= {_HELP}",
    "shred": f"-f --force -n= --iterations= --random-source= -s= --size= -u --remove=? -v --verbose -x --exact -z --zero {_HELP}",
    "tar": "bundled -A -c -d -r -t -u -x --create --extract --get --list --append --update --delete --diff --compare"
    " --concatenate -b= --blocking-factor= -C= --directory= --cd= -f= --file= -F= --info-script= --new-volume-script= -g="
    " --listed-incremental= -H= --format= -I= --use-compress-program= -K= --starting-file= -L= --tape-length= -N= --newer= -T="
    " --files-from= -V= --label= -X= --exclude-from= --exclude= --exclude-tag= --exclude-ignore= --checkpoint=?"
    " --checkpoint-action= --to-command= --rsh-command= --rmt-command= --transform= --xform= --strip-components= --suffix="
    " --owner= --group= --mode= --mtime= --owner-map= --group-map= --sort= --one-top-level=? --add-file= --occurrence=?"
    " --index-file= --record-size= --level= --volno-file= --after-date= --newer-mtime= --warning= --quoting-style= --backup=?"
    " -z -j -J -a -v -p -P -k -w -h -O -U -W -S -m -o -s --gzip --bzip2 --xz --zstd --lzma --lzip --auto-compress --verbose"
    " --preserve-permissions --absolute-names --keep-old-files --to-stdout --overwrite --recursive-unlink --unlink-first"
    f" --remove-files --no-recursion --dereference --same-owner --no-same-owner --totals --wildcards --verify --sparse {_HELP}",
    "rsync": "-v --verbose -q --quiet -c --checksum -a --archive -r --recursive -R --relative -b --backup --backup-dir="
    " --suffix= -u --update --inplace --append -d --dirs -l --links -L --copy-links -k -K -H --hard-links -p --perms -E -A -X"
    " -o -g -D -t -O -S -n! --dry-run! -W -x -B= --block-size= -e= --rsh= --rsync-path= --existing --ignore-existing"
    " --remove-source-files --del --delete --delete-before --delete-during --delete-delay --delete-after --delete-excluded"
    " --delete-missing-args --ignore-errors --force --max-delete= --max-size= --min-size= --partial --partial-dir= -m"
    " --prune-empty-dirs --numeric-ids --usermap= --groupmap= --chown= --chmod= --timeout= --contimeout= -I --size-only -T="
    " --temp-dir= -y --compare-dest= --copy-dest= --link-dest= -z --compress --compress-level= --skip-compress= -C -f="
    " --filter= -F --exclude= --exclude-from= --include= --include-from= --files-from= -0 --from0 -s --address= --port="
    " --sockopts= --blocking-io --stats -8 -h --human-readable --progress -P -i --itemize-changes -M= --remote-option="
    " --out-format= --log-file= --log-file-format= --password-file= --list-only --bwlimit= --stop-after= --write-batch="
    " --only-write-batch= --read-batch= --protocol= --iconv= --checksum-seed= --info= --debug= --daemon --config= -4 -6 --help!"
    " --version!",
    "sort": "-b -d -f -g -i -M -h -n -R -r -V -c -C -m -o= --output= -s -u -z -k= --key= -S= --buffer-size= -t="
    " --field-separator= -T= --temporary-directory= --parallel= --compress-program= --batch-size= --random-source="
    f" --files0-from= --sort= --reverse --unique --numeric-sort --stable --merge --zero-terminated --check=? {_HELP}",
    # network
    "curl": "-A= -b= -c= -C= -d= -D= -e= -E= -F= -H= -K= -m= -o= -P= -Q= -r= -t= -T= -u= -U= -w= -x= -X= -y= -Y= -z= -h!"
    " --help! -V! --version! --data= --data-ascii= --data-binary= --data-raw= --data-urlencode= --form= --form-string= --json="
    " --url= --url-query= --upload-file= --output= --output-dir= --header= --proxy-header= --request= --user= --user-agent="
    " --referer= --cookie= --cookie-jar= --config= --cert= --cert-type= --key= --key-type= --cacert= --capath= --max-time="
    " --connect-timeout= --proxy= --proxy-user= --resolve= --connect-to= --interface= --retry= --retry-delay= --retry-max-time="
    " --limit-rate= --range= --write-out= --dump-header= --trace= --trace-ascii= --stderr= --unix-socket="
    " --abstract-unix-socket= --netrc-file="
    " --max-redirs= --rate= --time-cond= --noproxy= --ciphers= --etag-save= --etag-compare= --continue-at= --max-filesize="
    " --speed-limit= --speed-time= --quote= --ftp-port= --telnet-option= --oauth2-bearer= --aws-sigv4= --pinnedpubkey="
    " --socks5= --socks5-hostname= --socks4= --doh-url= --dns-servers= --engine= --mail-from= --mail-rcpt= --krb= --tls-max="
    " --variable= --expand-url= --insecure --location --silent --show-error --fail --fail-with-body --head --include --get"
    " --compressed --remote-name --remote-name-all --remote-header-name --create-dirs --verbose --ipv4 --ipv6 --http1.1 --http2"
    " --progress-bar --parallel",
    "wget": "-a= -A= -B= -D= -e= -i= -I= -l= -o= -O= -P= -Q= -R= -t= -T= -U= -w= -X= --output-document= --output-file="
    " --append-output= --directory-prefix= --post-data= --post-file= --body-data= --body-file= --method= --header= --user="
    " --password= --user-agent= --referer= --tries= --timeout= --wait= --input-file= --base= --accept= --reject= --domains="
    " --level= --execute= --limit-rate= --load-cookies= --save-cookies= --ca-certificate= --certificate= --private-key= --config="
    " --no-config --no-check-certificate --quiet --recursive --mirror --continue --no-clobber --spider --use-askpass= -h! --help!"
    " -V! --version!",
    "ssh": f"stops2 {_SSH}",
    "scp": "-3 -4 -6 -A -B -C -O -p -q -R -r -s -T -v -c= -D= -F= -i= -J= -l= -o= -P= -S= -X=",
    "sftp": "-4 -6 -A -a -C -f -N -p -q -r -v -B= -b= -c= -D= -F= -i= -J= -l= -o= -P= -R= -S= -s= -X=",
    # git
    "git": "stops -C= -c= --git-dir= --work-tree= --namespace= --exec-path? --super-prefix= --config-env= --attr-source= -p"
    " --paginate -P --no-pager --bare --no-replace-objects --literal-pathspecs --no-optional-locks --help! -h! -v! --version!"
    " --html-path! --man-path! --info-path!",
    "git push": "-v --verbose -q --quiet --repo= --all --branches --mirror -d --delete --tags -n! --dry-run! --porcelain -f"
    " --force --force-with-lease? --force-if-includes --recurse-submodules= --thin --no-thin --receive-pack= --exec= -u"
    " --set-upstream --progress --prune --no-verify --verify --follow-tags --signed? --atomic -o= --push-option= -4 --ipv4 -6"
    " --ipv6",
    "git clean": "-q --quiet -n! --dry-run! -f --force -i --interactive -d -e= --exclude= -x -X",
    "git reset": "-q --quiet --refresh --no-refresh --mixed -N --intent-to-add --soft --hard --merge --keep --recurse-submodules?"
    " -p --patch -U= --unified= --inter-hunk-context= --pathspec-from-file= --pathspec-file-nul",
    "git gc": "-q --quiet --prune? --no-prune --cruft --max-cruft-size= --expire-to= --aggressive --auto --detach --force"
    " --keep-largest-pack",
    "git checkout": "-q --quiet -l -b= -B= --progress -m --merge --conflict= -d --detach -t --track? -f --force --orphan="
    " --overwrite-ignore --ignore-other-worktrees -2 --ours -3 --theirs -p --patch -U= --unified= --ignore-skip-worktree-bits"
    " --pathspec-from-file= --pathspec-file-nul --recurse-submodules? --overlay --no-overlay --guess --no-guess",
    "git restore": "-s= --source= -S --staged -W --worktree --ignore-unmerged --overlay --no-overlay -q --quiet --progress -m"
    " --merge --conflict= -2 --ours -3 --theirs -p --patch -U= --ignore-skip-worktree-bits --recurse-submodules?"
    " --pathspec-from-file= --pathspec-file-nul",
    "git switch": "-c= --create= -C= --force-create= --guess --no-guess --discard-changes -f --force -q --quiet -t --track? -d"
    " --detach -m --merge --conflict= --orphan= --ignore-other-worktrees --recurse-submodules? --progress",
    "git branch": "-v --verbose -q --quiet -t --track? -u= --set-upstream-to= --unset-upstream --color? -r --remotes --contains="
    " --no-contains= --abbrev? -a --all -d --delete -D -m --move -M --omit-empty -c --copy -C -l --list --show-current"
    " --create-reflog --edit-description -f --force --merged? --no-merged? --column? --sort= --points-at= -i --ignore-case"
    " --recurse-submodules --format=",
    "git rm": "-n! --dry-run! -q --quiet --cached -f --force -r --ignore-unmatch --sparse --pathspec-from-file="
    " --pathspec-file-nul",
    "git tag": "-l --list -n? -d --delete -v --verify -a --annotate -m= --message= -F= --file= -e --edit -s --sign --cleanup= -u="
    " --local-user= -f --force --create-reflog --column? --contains= --no-contains= --merged? --no-merged? --sort= --points-at="
    " --format= --color? -i --ignore-case --trailer=",
    "git stash": "-p --patch -S --staged -k --keep-index --no-keep-index -q --quiet -u --include-untracked -a --all -m="
    " --message= --pathspec-from-file= --pathspec-file-nul --index",
    "git rebase": "-x= --exec= -s= --strategy= -X= --strategy-option= --onto= --keep-base --whitespace= -C= --empty= -S?"
    " --gpg-sign? -i --interactive -r --rebase-merges? --root --continue --abort --skip --quit --autosquash --autostash -f"
    " --force-rebase --no-ff -n --no-stat --stat -q --quiet -v --verbose --signoff --edit-todo --show-current-patch"
    " --update-refs",
    "git commit": "-q --quiet -v --verbose -F= --file= --author= --date= -m= --message= -c= --reedit-message= -C="
    " --reuse-message= --fixup= --squash= --reset-author --trailer= -s --signoff -t= --template= -e --edit --no-edit --cleanup="
    " --status -S? --gpg-sign? -a --all -i --include -p --patch -o --only -n --no-verify --verify --dry-run! --short --branch"
    " --ahead-behind --porcelain --long -z --null --amend --no-post-rewrite -u? --untracked-files? --allow-empty"
    " --allow-empty-message --pathspec-from-file= --pathspec-file-nul",
    "git grep": "-e= -f= -O? --open-files-in-pager? -m= --max-count= -A= -B= -C= --max-depth= --threads= -n -i -l -c -w -v -h"
    " -H -E -P -F -G -I -r -q -z -L -o -p -W -a",
    "git clone": "-v --verbose -q --quiet --progress --reject-shallow -n --no-checkout --bare --mirror -l --local"
    " --no-hardlinks -s --shared --recursive? --recurse-submodules? -j= --jobs= --template= --reference= --reference-if-able="
    " --dissociate -o= --origin= -b= --branch= -u= --upload-pack= --depth= --shallow-since= --shallow-exclude= --single-branch"
    " --no-tags --shallow-submodules --separate-git-dir= -c= --config= --server-option= -4 --ipv4 -6 --ipv6 --filter="
    " --remote-submodules --sparse --bundle-uri= --revision= --ref-format= --also-filter-submodules",
    "git fetch": "-v --verbose -q --quiet --all --set-upstream -a --append --atomic --upload-pack= -f --force -m --multiple -t"
    " --tags -n --no-tags -j= --jobs= --prefetch -p --prune -P --prune-tags --recurse-submodules? --dry-run! --write-fetch-head"
    " -k --keep -u --update-head-ok --progress --depth= --shallow-since= --shallow-exclude= --deepen= --unshallow --refetch"
    " --update-shallow --refmap= -o= --server-option= -4 --ipv4 -6 --ipv6 --negotiation-tip= --negotiate-only --filter="
    " --auto-maintenance --auto-gc --show-forced-updates --write-commit-graph --stdin --porcelain",
    "git ls-remote": "-q --quiet --upload-pack= --exec= -t --tags -b --branches -h --heads --refs --get-url --sort= --exit-code"
    " --symref -o= --server-option=",
    "git difftool": "-x= --extcmd= -t= --tool= -d --dir-diff -g --gui -y --no-prompt --prompt --cached --tool-help"
    " --trust-exit-code",
    # containers
    "docker": f"stops {_DOCKER}",
    "docker run": _DOCKER_RUN,
    "docker exec": _DOCKER_EXEC,
    "docker container": f"stops {_DOCKER}",
    "docker container run": _DOCKER_RUN,
    "docker compose": f"stops {_COMPOSE}",
    "docker compose run": _DOCKER_RUN,
    "docker compose exec": _DOCKER_EXEC,
    "docker-compose": f"stops {_COMPOSE} {_DOCKER}",
    "docker-compose run": _DOCKER_RUN,
    "docker-compose exec": _DOCKER_EXEC,
    "kubectl": _KUBECTL,
    **{
        f"kubectl {verb}": f"+kubectl {_KUBE_WRITES}"
        for verb in ("delete", "apply", "create", "replace", "scale", "drain", "patch", "rollout", "label", "annotate", "set")
    },
    "helm": "exact -n= --namespace= --kube-context= --kubeconfig= --kube-apiserver= --kube-as-group= --kube-as-user="
    " --kube-ca-file= --kube-token= --kube-tls-server-name= --registry-config= --repository-cache= --repository-config="
    " --burst-limit= --qps= --debug --timeout= --description= -f= --values= --set= --set-string= --set-file= --set-json="
    " --set-literal= --version= --history-max= --cascade= --keep-history --no-hooks --wait --ignore-not-found --dry-run?!"
    " --install -i --atomic --force --create-namespace --reuse-values --reset-values -o= --output= --repo= --username="
    " --password= -h! --help!",
    "restic": "exact -r= --repo= --repository-file= -p= --password-file= --password-command= -o= --option= --cacert= --cache-dir="
    " --key-hint= --limit-download= --limit-upload= --tls-client-cert= --tag= --keep-tag= --host= -H= --path= -l= --keep-last="
    " --keep-hourly= -d= --keep-daily= -w= --keep-weekly= -m= --keep-monthly= -y= --keep-yearly= --keep-within= -g= --group-by="
    " --max-unused= --max-repack-size= -n! --dry-run! --prune -c --compact -q --quiet -v --verbose --json --no-cache --no-lock"
    " --retry-lock= -h! --help!",
    "kubectl exec": "+kubectl -c= --container= -f= --filename= --pod-running-timeout= -q --quiet -i --stdin -t --tty",
    # machines and clouds
    "az": "--query= -o= --output= --subscription= --verbose --debug --only-show-errors --yes -y --no-wait -h! --help!",
    "gcloud": "--project= --account= --configuration= --format= --filter= --verbosity= --flatten="
    " --limit= --sort-by= --page-size= --impersonate-service-account= --billing-project= --access-token-file= --flags-file="
    " --trace-token= --command= --ssh-flag= --quiet -q --log-http --user-output-enabled --help! -h!",
    "aws": "--profile= --region= --output= --query= --endpoint-url= --cli-input-json= --cli-input-yaml= --ca-bundle= --color="
    " --cli-read-timeout= --cli-connect-timeout= --debug --no-verify-ssl --no-paginate --no-sign-request --no-cli-pager"
    " --no-cli-auto-prompt --version!",
    "rclone": "exact -n! --dry-run! -i --interactive -v --verbose -q --quiet -P --progress -c --checksum -u --update --config="
    " --transfers= --checkers= --bwlimit= --filter= --filter-from= --include= --include-from= --exclude= --exclude-from="
    " --files-from= --max-age= --min-age= --max-size= --min-size= --log-file= --log-level= --stats= --backup-dir= --suffix="
    " --delete-after --delete-before --delete-during --delete-excluded --fast-list --size-only --ignore-existing"
    " --create-empty-src-dirs -h! --help!",
    "terraform": f"stops {_TERRAFORM}",
    **{
        f"terraform {verb}": _TERRAFORM_RUN
        for verb in ("destroy", "apply", "plan", "import", "taint", "untaint", "refresh", "force-unlock", "init")
    },
    "ansible-playbook": f"-C! {_ANSIBLE} --start-at-task= --step --flush-cache --force-handlers",
    "ansible-pull": f"{_ANSIBLE} -C= --checkout= -U= --url= -d= --directory= -o --only-if-changed -s= --sleep= --purge --full"
    " --clean --force --accept-host-key -m= --module-name= --track-subs --verify-commit",
    "ansible": f"-C! {_ANSIBLE} -m= --module-name= -a= --args= -B= --background= -P= --poll= -o --one-line",
    # file systems
    "mkfs.ext4": "-b= -C= -d= -e= -E= -f= -g= -G= -i= -I= -J= -l= -L= -m= -M= -N= -o= -O= -r= -T= -t= -U= -z= -c -D -F -j -K -n!"
    " -q -S -v -V!",
    "mkfs.xfs": "-b= -c= -d= -i= -l= -L= -m= -n= -p= -r= -s= -f -K -N! -q -V!",
    "mkfs.btrfs": "-A= --alloc-start= -b= --byte-count= --checksum= --csum= -d= --data= -l= --leafsize= -L= --label= -m="
    " --metadata= -n= --nodesize= -O= --features= -R= --runtime-features= -r= --rootdir= -u= --subvol= --compress= -s="
    f" --sectorsize= -U= --uuid= --device-uuid= -f --force -K --nodiscard -M --mixed --shrink --quiet -v --verbose -V! {_HELP}",
    "mkfs.vfat": "-b= -B= -D= -f= -F= -g= -h= -i= -l= -m= -M= -n= -r= -R= -s= -S= --codepage= --offset= --variant= --mbr? -a -A"
    " -c -C -I -v --invariant --help!",
    "mkswap": "-p= --pagesize= -L= --label= -v= --swapversion= -U= --uuid= -e= --endianness= -o= --offset= -s= --size= -c --check"
    f" -f --force -q --quiet -F --file --lock? --verbose -V! {_HELP}",
    "mkfs.ntfs": "-c= --cluster-size= -H= --heads= -L= --label= -p= --partition-start= -s= --sector-size= -S="
    " --sectors-per-track= -z= --mft-zone-multiplier= -C -f -F -I -n! --no-action! -q -Q -T -U -v -V! --quick --fast --force"
    f" --enable-compression --with-uuid --zero-time --no-indexing --quiet --verbose --debug {_HELP}",
    "mkfs.f2fs": "-a= -c= -C= -d= -e= -E= -g= -l= -o= -O= -R= -s= -t= -T= -U= -w= -z= -f -i -m -q -r -S -V!",
    "mkfs.exfat": "-b= --boundary-align= -c= --cluster-size= -i= -L= --volume-label= -n= -p= -s= --sector-size= -U="
    f" --volume-guid= -f --full-format --pack-bitmap -q --quiet -v --verbose -V! {_HELP}",
    "mkfs.jfs": "-J= -L= -s= -c -f -O -q -V!",
    "mkfs.reiserfs": "-b= --block-size= -B= --badblocks= -h= --hash= -j= --journal-device= -l= --label= -o= -s= --journal-size="
    " -t= -u= --uuid= --format= -d --debug -f --force -q --quiet -V!",
    "mkfs.nilfs2": "-b= -B= -L= -m= -O= -c -f -h! -n! -q -v -V!",
    "mkfs.udf": "-b= --blocksize= -l= --label= -m= --media-type= -r= --udfrev= -u= --uuid= --vid= --lvid= --vsid= --fsid= --uid="
    " --gid= --mode= --startblock= --strategy= --packetlen= --ad= --spartable? --sparspace= -n! --no-write! --new-file --help!",
    "mkfs.minix": f"-i= --inodes= -l= --badblocks= -n= --namelength= -1 -2 -3 -c --check -v {_HELP}",
    # programs that run others
    "env": "stops -i --ignore-environment -0 --null -u= --unset= -C= --chdir= -S= --split-string= -a= --argv0= -P= -v --debug"
    f" --default-signal? --ignore-signal? --block-signal? --list-signal-handling {_HELP}",
    "su": _SU,
    "runuser": f"{_SU} -u= --user=",
    "xargs": "stops -0 --null -a= --arg-file= -d= --delimiter= -E= -e? --eof? -I= -i? --replace? -L= -l? --max-lines? -n="
    " --max-args= -o --open-tty -P= --max-procs= -p --interactive --process-slot-var= -r --no-run-if-empty -s= --max-chars= -t"
    " --verbose -x --exit --show-limits --help! --version!",
    "parallel": "stops -0 --null -a= --arg-file= --arg-file-sep= --arg-sep= --bar -C= --colsep= -d= --delimiter= --delay="
    " --dry-run! --dryrun! --dr! --eta --env= --files --halt= --header= -I= -i? --replace? -j= --jobs= -P= --max-procs= -k"
    " --keep-order -L= --joblog= --load= -l? -m -N= -n= --max-args= --max-replace-args= --memfree= --nice= --no-notice --pipe"
    " --spreadstdin --pipepart --pipe-part --block= --recstart= --recend= --results= --resume --retries= -S= --sshlogin="
    " --sshloginfile= --slf= --tag --tagstring= --timeout= --tmpdir= --tempdir= --trim= -u --ungroup --verbose -v -X -x"
    " --will-cite --workdir= --wd= --help! --version! -V! -h! --shuf --line-buffer --lb --linebuffer --progress --cat --fifo"
    " --plus -q --quote --profile= -J= --termseq= --shellquote --link --xapply --semaphore --bg --fg --id= --wait",
    **dict.fromkeys(("bash", "sh", "dash", "zsh", "ksh"), f"{_SHELL_OPTIONS} --help! --version!"),
    # databases
    "redis-cli": "exact stops -h= -p= -t= -s= -a= --user= --pass= -u= -r= -i= -n= -X= -d= -D= --tls-ciphers= --sni= --cacert="
    " --cacertdir= --cert= --key= --eval= --pattern= --quoted-pattern= --intrinsic-latency= --rdb= --functions-rdb= --count="
    " --memkeys-samples= --show-pushes= -2 -3 -x -c -e --tls --insecure --raw --no-raw --quoted-input --csv --json --stat"
    " --latency --bigkeys --hotkeys --scan --askpass --no-auth-warning --replica --pipe --verbose --help! --version! -v!",
    "make": "-b -m -B --always-make -C= --directory= -d --debug? -e --environment-overrides -E= --eval= -f= --file= --makefile="
    " -h! --help! -i --ignore-errors -I= --include-dir= -j? --jobs? -k --keep-going -l? --load-average? -L"
    " --check-symlink-times -n --just-print --dry-run --recon -o= --old-file= --assume-old= -O? --output-sync? -p"
    " --print-data-base -q --question -r --no-builtin-rules -R --no-builtin-variables -s --silent --quiet -S --no-keep-going"
    " --stop -t --touch --trace -v! --version! -w --print-directory --no-print-directory -W= --what-if= --new-file="
    " --assume-new= --warn-undefined-variables --shuffle?",
    "start-stop-daemon": "-S --start -K --stop -T --status -H! --help! -V! --version! -p= --pidfile= -x= --exec= -n= --name="
    " --pid= --ppid= -u= --user= -g= --group= -s= --signal= -R= --retry= -a= --startas= -t! --test! -o --oknodo -q --quiet -c="
    " --chuid= -r= --chroot= -d= --chdir= -b --background --notify-await --notify-timeout= -C --no-close -O= --output= -N="
    " --nicelevel= -P= --procsched= -I= --iosched= -k= --umask= -m --make-pidfile --remove-pidfile -v --verbose",
    "duckdb": "single -readonly -c= -cmd= -f= -init= -s= -separator= -nullvalue= -newline= -csv -json -line -box -bail -batch"
    " -ascii -column -echo -header -html -interactive -list -markdown -no-stdin -noheader -quote -safe -table -unsigned"
    " -unredacted -storage-version= -help! --help! -version! --version!",
    # systems
    "shutdown": "-H --halt -P --poweroff -r --reboot -h -k! --no-wall -c --show! --help!",
    **dict.fromkeys(
        ("halt", "poweroff", "reboot"),
        "-f --force -p --poweroff --halt --reboot -w --wtmp-only -d --no-wtmp -n --no-sync -i -h --no-wall --help!",
    ),
    "systemctl": "-t= --type= --state= -p= --property= -P= -a --all -l --full -r --recursive -H= --host= -M= --machine= -q"
    " --quiet -s= --signal= --kill-whom= --kill-who= --kill-value= -f --force --message= -n= --lines= -o= --output= --root="
    " --image= --job-mode= --firmware-setup --boot-loader-menu= --boot-loader-entry= --what= --when= --preset-mode= --user"
    " --system --global --no-block --wait --no-pager --no-legend --no-reload --no-wall --no-ask-password --runtime --now --plain"
    " --show-types --reverse --after --before --failed --value --check-inhibitors= --dry-run! --timestamp= -h! --help!"
    " --version!",
    "systemd-run": "stops --user --system --scope --no-block -r --remain-after-exit --send-sighup --wait -t --pty -P --pipe -q"
    " --quiet -G --collect -S --shell --same-dir -d --no-ask-password --ignore-failure --background= -u= --unit= -p="
    " --property= --description= --slice= --slice-inherit --expand-environment= -E= --setenv= --service-type= --uid="
    " --gid= --nice= --working-directory= -H= --host= -M= --machine= --on-active= --on-boot= --on-startup="
    " --on-unit-active= --on-unit-inactive= --on-calendar= --on-clock-change --on-timezone-change --path-property="
    " --socket-property= --timer-property= -h! --help! --version!",
    "systemd-sysusers": "--root= --image= --replace= --dry-run! --inline --cat-config --no-pager --tldr -h! --help! --version!",
    "nix-collect-garbage": "-d --delete-old --delete-older-than= --dry-run! --help! --version!",
    "apt-get": "-q? --quiet? -s! --simulate! --just-print! --dry-run! --no-act! --recon! -y --yes --assume-yes --assume-no! -d"
    " --download-only! -m -f --fix-broken -t= --target-release= --default-release= -c= --config-file= -o= --option= -a="
    " --host-architecture= -P= --build-profiles= -b -V -u --print-uris! --purge --reinstall --autoremove --auto-remove"
    " --no-install-recommends --allow-downgrades --allow-remove-essential --allow-change-held-packages --force-yes"
    " --only-upgrade --no-remove --ignore-hold --allow-unauthenticated --trivial-only -h! --help! -v! --version!",
}
"""Options by program, or by program and subcommand (``docker run``)."""

SAME: Mapping[str, str] = {
    **{f"g{name}": name for name in ("rm", "cp", "mv", "ln", "install", "chmod", "chown", "chgrp", "truncate", "shred", "sort")},
    "gtar": "tar",
    "autossh": "ssh",
    "curlie": "curl",
    "gmake": "make",
    **dict.fromkeys(("mke2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4dev"), "mkfs.ext4"),
    **dict.fromkeys(("mkdosfs", "mkfatfs", "mkfs.fat", "mkfs.msdos"), "mkfs.vfat"),
    "mkntfs": "mkfs.ntfs",
    "mkreiserfs": "mkfs.reiserfs",
    "mkexfatfs": "mkfs.exfat",
    "mkudffs": "mkfs.udf",
    "jfs_mkfs": "mkfs.jfs",
    "hub": "git",
    "yadm": "git",
    **dict.fromkeys(("podman", "nerdctl", "finch", "lima"), "docker"),
    "podman-compose": "docker-compose",
    **{
        f"{first} {verb}": f"docker {kind}"
        for first in ("docker", "docker container", "docker-compose", "docker compose")
        for verb, kind in (("create", "run"),)
    },
    "docker container exec": "docker exec",
    "kubecolor": "kubectl",
    "helm3": "helm",
    **dict.fromkeys(("valkey-cli", "keydb-cli"), "redis-cli"),
    "oc": "kubectl",
    "tofu": "terraform",
    "apt": "apt-get",
    "gxargs": "xargs",
    "ash": "sh",
}
"""Programs with the same options as another one: the other's name in ``OPTIONS``, by the program's name."""

VARIABLES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("tar", "gtar"), ("TAR_OPTIONS",)),
    **dict.fromkeys(("terraform", "tofu"), ("TF_CLI_ARGS", "TF_CLI_ARGS_{}")),
    **dict.fromkeys(("grep", "egrep", "fgrep"), ("GREP_OPTIONS",)),
    "less": ("LESS",),
    **dict.fromkeys(("make", "gmake"), ("GNUMAKEFLAGS", "MAKEFLAGS")),
    "parallel": ("PARALLEL",),
    "zip": ("ZIPOPT",),
    "gzip": ("GZIP",),
    "xz": ("XZ_OPT", "XZ_DEFAULTS"),
}
"""Variables whose options a program adds to those of its command line; ``{}`` stands for its subcommand."""

COMMAND_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "rsync": ("RSYNC_RSH", "RSYNC_CONNECT_PROG"),
    "git": ("GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND"),
    "svn": ("SVN_SSH",),
    "cvs": ("CVS_RSH",),
}
"""Variables that hold a command, by the program that runs it."""
